(() => {
  "use strict";

  // ---- the interpreter of what _live_program.py writes: lists of numbers, without shapes

  const mod = (a, b) => { const r = a % b; return r && r < 0 !== b < 0 ? r + b : r; };
  // from what is left, as torch does: 1 / 0.1 rounded is 10, and 0.1 is in 1 nine times
  function floordiv(a, b) {
    if (!b) return a / b;
    const q = (a - a % b) / b - Number(mod(a, b) !== a % b), n = Math.floor(q);
    return q ? n + Number(q - n > 0.5) : 0 * (a / b);
  }
  const round = a => { const r = Math.round(a); return r - a === 0.5 && r % 2 ? r - 1 : r; };
  const functions = {
    add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, div: (a, b) => a / b,
    neg: a => -a, round, sign: a => Math.sign(a) || 0, isnan: a => Number(a !== a), sigmoid: a => 1 / (1 + Math.exp(-a)),
    eq: (a, b) => Number(a === b), ne: (a, b) => Number(a !== b),
    lt: (a, b) => Number(a < b), le: (a, b) => Number(a <= b),
    gt: (a, b) => Number(a > b), ge: (a, b) => Number(a >= b),
    and: (a, b) => Number(a && b), or: (a, b) => Number(a || b), not: a => Number(!a),
    where: (a, b, c) => a ? b : c, max: (a, b) => Math.max(a, b), min: (a, b) => Math.min(a, b),
    hypot: (a, b) => Math.hypot(a, b),
    pow: (a, b) => a === 1 ? 1 : a === -1 && Math.abs(b) === Infinity ? 1 : a ** b,
    fmod: (a, b) => a % b, mod, floordiv,
    long: a => Math.abs(a) < 2 ** 63 ? Math.trunc(a) : -(2 ** 63),
    erf: a => Math.abs(a) > 1 ? Math.sign(a) * (1 - tail(Math.abs(a))) : middle(a),
    erfc: a => a > 1 ? tail(a) : 1 - functions.erf(a),
  };
  const named = f => functions[f] ?? Math[f];

  // erf near 0, and 1 - erf beyond 1, each to its last digits
  const bell = a => Math.exp(-a * a) / Math.sqrt(Math.PI);
  function middle(a) {
    let term = a, sum = a;
    for (let n = 1; n < 50; n++) sum += term *= 2 * a * a / (2 * n + 1);
    return 2 * sum * bell(a);
  }
  function tail(a) {
    let rest = 0;
    for (let n = 200; n; n--) rest = n / 2 / (a + rest);
    return bell(a) / (a + rest);
  }

  function fold(f, a, k, keep) {
    const out = [];
    for (let i = 0, sum; i < a.length; i++) {
      sum = i % k ? f(sum, a[i]) : a[i];
      if (keep || i % k === k - 1) out.push(sum);
    }
    return out;
  }

  function sort(a, k, down) {
    const before = (i, j) => down
      ? a[j] - a[i] || (a[i] === a[i]) - (a[j] === a[j])  // NaN is above all
      : a[i] - a[j] || (a[j] === a[j]) - (a[i] === a[i]);
    return Array.from({ length: a.length / k }, (_, s) =>
      Array.from({ length: k }, (_, i) => s * k + i).sort((i, j) => before(i, j) || i - j)).flat();
  }

  function written(a, places, b, add) {
    const out = [...a];
    places.forEach((p, i) => out[p] = add ? out[p] + b[i] : b[i]);
    return out;
  }

  const kinds = {
    take: (at, a, i) => at[i].map(p => at[a][p]),
    put: (at, a, i, b) => written(at[a], at[i], at[b], false),
    pour: (at, a, i, b) => written(at[a], at[i], at[b], true),
    join: (at, ...parts) => parts.flatMap(p => at[p]),
    fold: (at, f, a, k) => fold(named(f), at[a], k, false),
    scan: (at, f, a, k) => fold(named(f), at[a], k, true),
    sort: (at, a, k, down) => sort(at[a], k, down),
  };

  function each(f, [a, b = [], c = []]) {
    const out = [], length = Math.max(a.length, b.length, c.length);
    for (let i = 0; i < length; i++)
      out.push(f(a[a.length > 1 ? i : 0], b[b.length > 1 ? i : 0], c[c.length > 1 ? i : 0]));
    return out;
  }

  // the lists of all nodes; those before the first that needs v may be known for this x
  function run({ nodes, still }, x, v, known = []) {
    const at = [x, v, ...known.slice(2, still)];
    for (const [kind, ...rest] of nodes.slice(at.length - 2))
      at.push(kind === "list" ? rest[0].map(Number)
        : kinds[kind] ? kinds[kind](at, ...rest) : each(named(kind), rest.map(i => at[i])));
    return at;
  }

  const unit = (n, k) => Array.from({ length: n }, (_, i) => Number(i === k));

  // a number as it is shown; the largest of all is not rounded to one beyond
  const rounded = (x, to) => Math.abs(to) < Infinity ? to : x;
  const tidy = x => (Math.abs(x) < 1e-3 && x !== 0) || (Math.abs(x) >= 1e6 && Math.abs(x) < 1e308)
    ? x.toExponential(Math.abs(x) < 1 ? 1 : 2).replace("+", "")
    : String(x === 0 ? 0 : rounded(x, Number(x.toPrecision(Math.abs(x) < 1 ? 3 : 4))));

  // J at x, row by row, and the lists of the last of its runs
  function jacobian(program, x, m) {
    let at = [];
    const J = Array.from({ length: m }, (_, i) => {
      at = run(program, x, unit(m, i), at);
      return at[program.outputs[1]];
    });
    return [J, at];
  }

  // sums as the cells show them: what rounding leaves of terms that cancel is 0; so is what
  // is another number when the terms are added up. Whole numbers are not rounded
  const kept = (found, terms) => found.map((sum, k) => {
    const size = terms[k].reduce((all, x) => all + Math.abs(x), 0);
    const other = terms[k].reduce((all, x) => all + x, 0);
    const exact = sum === other && size < 2 ** 53 && terms[k].every(Number.isInteger);
    const rounding = 4e-15 * size + 2 * Math.abs(sum - other);
    return !exact && rounding < Infinity && Math.abs(sum) <= rounding ? 0 : sum;
  });
  const turned = J => J[0].map((_, j) => J.map(row => row[j]));
  const times = (lines, w) => lines.map(line => line.map((x, k) => x * w[k]));
  // where the product is no sum of the rows of J, nothing is known of its terms
  const backward = ({ linear }, J, v, product) =>
    linear ? kept(product, times(turned(J), v)) : product;
  const forward = (J, u) => kept(times(J, u).map(xs => xs.reduce((a, b) => a + b)), times(J, u));

  if (typeof document === "undefined") return { run, jacobian, backward, forward, tidy };

  // ---- the picture

  const list = xs => "[" + xs.map(tidy).join(", ") + "]";
  const largest = xs => Math.max(...xs.map(Math.abs).filter(Number.isFinite), 1e-300);
  const drawn = x => tidy(x).replace(/-/g, "\u2212");
  // as Python writes them: one number, nested lists, or a shape with the norm of what it holds
  const told = (words, [...xs]) => words[0] === "(" ? words.replace(/\S+$/, drawn(Math.hypot(...xs)))
    : words.replace(/[^\][, ]+/g, () => drawn(xs.shift()));

  function start(form) {
    const all = selector => [...form.querySelectorAll(selector)];
    const { program, names, views, lift, reach, tints, input, ...given } = JSON.parse(form.dataset.live);
    const first = Object.fromEntries(["x", "v", "u"].map(w => [w, given[w].map(Number)]));
    const own = { ...first }, now = { ...first };
    const preset = { v: "own", u: "own" }, hot = { v: -1, u: -1 };
    const fields = { x: [], v: [], u: [] };
    const said = form.querySelector("output"), picture = form.querySelector("svg");
    const face = form.querySelector(".pb-face"), numbers = form.querySelector(".pb-x");
    const found = {}, every = selector => found[selector] ??= all(selector);
    let way, J, at, later;

    // as Python draws it: one scale for all the numbers of the picture
    function tint(shape, x, most) {
      const step = Math.floor((tints - 1) * Math.min(1, Math.abs(x) / most) + 0.5);
      const letter = String.fromCharCode(65 + step);
      put(shape.classList, "value", x > 0 ? "t" + letter : x < 0 ? "u" + letter : "");
    }

    // what stays the same costs a page nothing
    function put(part, name, value) {
      if (part[name] !== value) part[name] = value;
    }

    function compute() {
      [J, at] = jacobian(program, now.x, now.v.length);
    }

    function move(which, i, to, typing) {
      if (to === now[which][i]) return;
      now[which] = now[which].with(i, to);
      own[which] = now[which];
      if (which === "x") compute();
      else preset[which] = "own";
      show(typing);
    }

    function control(cell, which, i) {
      const wide = parseFloat(cell.parentNode.style.getPropertyValue("--w"));
      const label = which === "x" ? names.u[i] : `weight of ${names[which][i]}`;
      const both = ["number", "range"].map(type => {
        const input = document.createElement("input"), end = reach[which];
        Object.assign(input, { type, min: -end, max: end, step: end / 20 });
        if (type === "number") { input.removeAttribute("min"); input.removeAttribute("max"); }
        if (which !== "x") input.className = "pb-by-" + which;
        input.style.width = `${wide}px`;
        input.setAttribute("aria-label", label + (type === "range" ? ", slider" : ""));
        input.addEventListener("input", () => {
          if (Number.isFinite(input.valueAsNumber)) move(which, i, input.valueAsNumber, input);
        });
        // a finger that goes on to scroll the page has not meant the slider under it
        let before;
        input.addEventListener("pointerdown", () => before = now[which][i]);
        input.addEventListener("pointercancel", () => move(which, i, before));
        input.addEventListener("wheel", event => {
          if (document.activeElement !== input) return;
          event.preventDefault();
          event.deltaY < 0 ? input.stepUp() : input.stepDown();
          input.dispatchEvent(new Event("input"));
        }, { passive: false });
        input.addEventListener("blur", () => show());
        return input;
      });
      face.append(...both);
      fields[which][i] = { cell, both };
    }

    function place({ cell, both }, dy) {
      const [left, top] = ["x", "y"].map((name, k) =>
        Number(cell.getAttribute(name)) - views[way][k]);
      both.forEach((input, k) => Object.assign(input.style,
        { left: `${left}px`, top: `${top + dy + (k ? 30 : 1)}px` }));
    }

    function turn(to) {
      way = to;
      const up = way === "u" ? lift : 0;
      fields.x.forEach(field => place(field, up));
      fields[way].forEach(field => place(field, 0));
      numbers.setAttribute("transform", `translate(0 ${up})`);
      all(".pb-by-v, .pb-by-u").forEach(e =>
        e.toggleAttribute("hidden", !e.classList.contains("pb-by-" + way)));
      picture.setAttribute("viewBox", views[way].join(" "));
      picture.removeAttribute("style");
      ["width", "height"].forEach((name, k) => picture.setAttribute(name, views[way][2 + k]));
      all(".pb-name").forEach(e => e.textContent = way);
      show();
    }

    function show(typing) {
      const w = now[way], flat = J.flat(), rows = way === "v" ? J : turned(J);
      at = run(program, now.x, now.v, at);
      const [y, product, ...seen] = program.outputs.map(i => at[i]);
      const result = way === "v" ? backward(program, J, w, product) : forward(J, w);
      const most = largest([...w, ...result, ...flat]);
      const cells = selector => every(`.pb-by-${way} ${selector}`);
      const write = (texts, words) => texts.forEach((text, k) => put(text, "textContent", words(k, text)));
      const color = (shapes, numbers) => shapes.forEach((shape, k) => tint(shape, numbers[k], most));
      color(every(".pb-j rect"), flat);
      write(every(".pb-j text"), k => drawn(flat[k]));
      color(cells(".pb-v rect"), w);
      color(cells(".pb-band rect"), w);
      color(cells(".pb-sum rect"), result);
      write(cells(".pb-sum text"), k => drawn(result[k]));
      write(cells(".e text"), k => `${names.v[k]} = ${drawn(y[k])}`);
      const marked = part => seen[part.dataset.at - 2];
      const strongest = every("rect[data-at]").map(part =>
        marked(part).reduce((a, b) => Math.abs(b) > Math.abs(a) ? b : a));
      every("rect[data-at]").forEach((part, k) => tint(part, strongest[k], largest(strongest)));
      write(every(":is(tspan, span)[data-at]"), (k, part) => told(part.textContent, marked(part)));
      // a field keeps what was typed as long as that is the number
      for (const which of ["x", way]) fields[which].forEach(({ both: [field, slider] }, i) => {
        const number = now[which][i];
        if (field !== typing && field.valueAsNumber !== number) put(field, "value", tidy(number));
        if (slider !== typing) put(slider, "value", String(number));
      });
      every("fieldset button[value]").forEach(b => b.setAttribute("aria-pressed", b.value === preset[way]));
      clearTimeout(later);
      later = setTimeout(() => {
        const terms = w.map((x, i) => `${tidy(x)}·${list(rows[i])}`).join(" + ");
        const sum = program.linear || way === "u";
        const short = sum && w.length <= 4 && rows[0].length <= 4 ? terms + " = " : "";
        said.textContent = `y = ${list(y)}; ` +
          (way === "v" ? "vᵀJ = " : "J u = ") + short + list(result) +
          (way === "v" ? `, added to ${input}.grad` : ", the change of y along u");
        picture.setAttribute("aria-label", said.textContent);
        every(".pb-steps").forEach(part => part.dispatchEvent(new Event("moved")));
      }, typing ? 250 : 0);
    }

    function choose(kind) {
      const n = now[way].length;
      if (kind === "hot") hot[way] = preset[way] === "hot" ? (hot[way] + 1) % n : 0;
      now[way] = kind === "own" ? own[way] : kind === "hot" ? unit(n, hot[way])
        : Array(n).fill(kind === "ones" ? 1 : 1 / n);
      preset[way] = kind;
      show();
    }

    all(".pb-x rect").forEach((cell, i) => control(cell, "x", i));
    for (const which of ["v", "u"])
      all(`.pb-by-${which} .pb-v rect`).forEach((cell, i) => control(cell, which, i));
    all("fieldset button[value]").forEach(b => b.addEventListener("click", () => choose(b.value)));
    form.querySelector(".pb-start").addEventListener("click", () => {
      Object.assign(own, first);
      now.x = first.x;
      compute();
      choose("own");
    });
    all("[type=radio]").forEach(radio => radio.addEventListener("change", () => {
      turn(radio.value);
    }));
    form.addEventListener("submit", event => event.preventDefault());
    all("fieldset").forEach(e => e.hidden = false);
    form.dataset.ready = "";
    compute();
    turn(form.querySelector("[type=radio]:checked").value);
  }

  // a saved page may have this script more than once; the first to run starts those so far
  document.querySelectorAll("form.pb-live:not([data-ready])").forEach(start);
})()
