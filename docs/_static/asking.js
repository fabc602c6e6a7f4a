/* Checks what a reader types against what docs/_ext/asking.py stored with each form. */
(() => {
  const show = (numbers) =>
    `[${numbers.map((n) => String(Number(n.toPrecision(4)))).join(", ")}]`;
  const tuple = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const same = (a, b) => String(a) === String(b);
  const each = (value, f) => (Array.isArray(value) ? value.map((v) => each(v, f)) : f(value));
  const range = (n, f) => Array.from({ length: Math.min(n, 1e3) }, (_, i) => f(i));
  function filled(sizes, value) {
    if (sizes.reduce((a, b) => a * b, 1) > 1e4) throw new SyntaxError("too large to be typed");
    const [n, ...rest] = sizes;
    return sizes.length ? range(n, () => filled(rest, value)) : value;
  }
  const oneHot = (n) => (k) => range(n, (i) => Number(i === k));
  const numbersOf = (value) => [value].flat(Infinity);

  function shapeOf(value) {
    if (!Array.isArray(value)) return [];
    const shapes = value.map(shapeOf);
    if (shapes.some((shape) => !same(shape, shapes[0]))) throw new RangeError("ragged");
    return [value.length, ...(shapes[0] || [])];
  }

  // Each is given the shape of the tensor that it names, if any, and its arguments.
  const MADE = {
    ones: (like, ...sizes) => filled(sizes.flat(), 1),
    zeros: (like, ...sizes) => filled(sizes.flat(), 0),
    full: (like, sizes, value) => filled([sizes].flat(), value),
    ones_like: (like) => filled(like, 1),
    zeros_like: (like) => filled(like, 0),
    eye: (like, n) => range(n, oneHot(n)),
    one_hot: (like, at, n) => each(at, oneHot(n)),
    tensor: (like, value) => value,
  };
  MADE.Size = MADE.array = MADE.tensor;

  // Reads what one types for a tensor, as a number or nested lists; brackets and commas
  // may be missing. like(name) is the shape of a tensor.
  function read(text, like) {
    const tokens = text.replace(/^\s*[a-z_][\w.]*\s*=/i, "").replace(/[−–]/g, "-")
      .replace(/\b(torch|nn|functional|F|np)\./g, "").replace(/,\s*\w+\s*=\s*[\w.]+/g, "")
      .replace(/\.[a-z]+\(\)/g, "").replace(/(\d) *[x×] *(?=\d)/g, "$1, ")
      .match(/(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[a-z_][\w.]*|\S/gi) || [];
    const fail = () => { throw new SyntaxError(text); };
    const take = (wanted) => tokens[0] === wanted && tokens.shift();
    const number = (value) => (typeof value === "number" ? value : fail());

    function product() {
      let value = signed(), sign;
      while ((sign = take("*") || take("/"))) {
        let other = signed();
        if (sign === "/") other = 1 / number(other);
        else if (Array.isArray(other)) [value, other] = [other, value];
        number(other);
        value = each(value, (n) => n * other);
      }
      return value;
    }
    function signed() {
      if (take("-")) return each(signed(), (n) => -n);
      take("+");
      const token = tokens.shift();
      let value;
      if (/^\.?\d/.test(token)) return Number(token);
      if (/^(true|yes|false|no)$/i.test(token)) return Number(/^[ty]/i.test(token));
      if (token === "[") return list("]")[0];
      if (token === "(") {
        const [entries, commas] = list(")");
        value = entries.length === 1 && !commas ? entries[0] : entries;
      } else if (Object.hasOwn(MADE, token) && take("(")) {
        let shape;
        if (token.endsWith("_like")) {
          shape = like(tokens.shift());
          take(",");
        }
        value = MADE[token](shape, ...list(")")[0]);
      } else fail();
      return take("[") ? value[number(list("]")[0][0])] ?? fail() : value;
    }
    // Entries up to a bracket, or to the end, and the number of commas between them.
    function list(close) {
      const entries = [];
      let commas = 0;
      while (tokens[0] !== close) {
        entries.push(product());
        if (take(",")) commas += 1;
      }
      tokens.shift();
      return [entries, commas];
    }
    const [entries, commas] = list(undefined);
    if (!entries.length) fail();
    const value = entries.length === 1 && !commas ? entries[0] : entries;
    return numbersOf(value).every(Number.isFinite) ? value : fail();
  }

  const UNREAD = "Not read. Write numbers, such as 8 or [1, 1/2].";
  const ON = " Read on to see why.";

  function weigh(v, { shape, rows, wanted }) {
    const weights = numbersOf(v), given = shapeOf(v);
    if (!same(given, shape)) return `Mismatch in shape: v has the shape ${tuple(given)}, and y has ${tuple(shape)}.`;
    const result = wanted.map((_, j) => weights.reduce((sum, w, i) => sum + w * rows[i][j], 0));
    return result.every((n, j) => Math.abs(n - wanted[j]) <= 1e-3 * (1 + Math.abs(wanted[j])))
      ? `Right: this v gives ${show(result)}.`
      : `Not yet: this v gives ${show(result)}, and ${show(wanted)} is asked for.`;
  }

  function compare(value, { shape, numbers, slack, text }) {
    const given = shapeOf(value), typed = numbersOf(value);
    const right = (n, i) => Math.abs(n - numbers[i]) <= slack[i];
    const one = typed.length === 1;
    if (one && numbers.every((_, i) => right(typed[0], i))) return `Right: ${text}.`;
    if (!same(given, shape)) return `Yours has the shape ${tuple(given)}, and the answer has ${tuple(shape)}.`;
    const count = typed.filter(right).length;
    if (count === typed.length) return `Right: ${text}.`;
    return (count ? `${count} of the ${typed.length} are right.` : "Not so.") + ON;
  }

  function compareShape(text, { numbers, shapes }, like) {
    const typed = shapes[text.trim().replace(/\.shape$/, "")] || numbersOf(read(text, like));
    if (same(typed, numbers)) return `Right: ${tuple(numbers)}.`;
    const owner = Object.keys(shapes).find((name) => same(shapes[name], typed));
    return (owner ? `${tuple(typed)} is the shape of ${owner}.` : `Not ${tuple(typed)}.`) + ON;
  }

  const ORDINALS = ["first", "second", "third", "fourth", "fifth"];

  // Which entry: the second, 2, 2nd, stove 2, x[1].
  function comparePlace(text, { place, numbers, text: shown }) {
    const word = ORDINALS.findIndex((name) => new RegExp(`\\b${name}\\b`, "i").test(text));
    const one = text.match(/^\D*(\d+)\D*$/);
    const typed = word < 0 && one ? one[1] - !/[a-z]\[/.test(text) : word;
    if (!(typed in numbers)) return "";
    const told = `the ${ORDINALS[typed] || `${typed + 1}th`}`;
    return typed === place ? `Right, ${told}: ${shown}.` : `Not ${told}.${ON}`;
  }

  function compareSigns(text, { numbers, text: shown }, like) {
    const plain = text.replace(/[-−](?![1-9.]|0\.)|negative|minus/gi, " -1 ")
      .replace(/\+(?![1-9.]|0\.)|positive|plus/gi, " 1 ").replace(/zero/gi, "0");
    const typed = numbersOf(read(plain, like));
    return same(typed.map(Math.sign), numbers.map(Math.sign)) ? `Right: ${shown}.` : `Not these signs.${ON}`;
  }

  function verdict(text, asks) {
    const { kind, shape, shapes } = asks;
    const like = (name) => shapes?.[name] || shape;
    try {
      if (kind === "shape") return compareShape(text, asks, like);
      if (kind === "signs") return compareSigns(text, asks, like);
      const said = kind === "largest" && comparePlace(text, asks);
      return said || (kind === "v" ? weigh : compare)(read(text, like), asks);
    } catch (error) {
      if (error instanceof RangeError) return "Not a tensor: the lists inside have different lengths.";
      if (error instanceof SyntaxError) return UNREAD;
      throw error;
    }
  }

  if (typeof document === "undefined") { // in Node, for its tests
    module.exports = { read, verdict };
    return;
  }

  // What tells an answer lies under a cover, as high as it is, until a reader has given one
  // or asks for it. Who looks for words in it, or comes to it by a link, finds it open.
  const covered = () => [...document.querySelectorAll(".veil > [hidden]")];
  const boxOf = (part) => part?.closest(".veil")?.dataset.of ?? "none";
  const named = () => document.getElementById(location.hash.slice(1));
  const button = (textContent, onclick) =>
    Object.assign(document.createElement("button"), { textContent, onclick });
  const all = button("Show all", () => unveil());

  function unveil(box) {
    for (const part of covered())
      if (!box || boxOf(part) === box) {
        part.hidden = false;
        while (part.nextSibling) part.nextSibling.remove();
      }
    const [next, ...others] = covered();
    if (others.some((part) => boxOf(part) !== boxOf(next))) next.parentNode.append(all);
  }
  function hide(parts) {
    for (const part of parts) part.hidden = false;
    for (const part of parts) part.style.containIntrinsicHeight = `${part.getBoundingClientRect().height}px`;
    for (const part of parts) part.setAttribute("hidden", "onbeforematch" in window ? "until-found" : "");
  }
  function cover() {
    const at = named(), sought = at?.querySelector("h1") ? null : at;
    const parts = document.querySelectorAll(".veil > div");
    for (const part of parts) {
      part.after(button("Your prediction first — or show it", () => {
        unveil(boxOf(part));
        part.tabIndex = -1;
        part.focus({ preventScroll: true });
      }));
      part.nextSibling.ariaExpanded = false;
    }
    hide(parts);
    unveil("none");
    for (const part of parts)
      if (sought?.contains(part) || part.contains(sought)) unveil(boxOf(part));
  }
  addEventListener("resize", () => hide(covered()));
  addEventListener("hashchange", () => unveil(boxOf(named())));
  addEventListener("beforematch", ({ target }) => unveil(boxOf(target)));
  // Before that, pictures get their size.
  if (document.readyState === "complete") cover();
  else addEventListener("DOMContentLoaded", cover);

  for (const form of document.querySelectorAll("form[data-asks]")) {
    const asks = JSON.parse(form.dataset.asks), line = form.querySelector("input");
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const said = verdict(line.value, asks);
      form.querySelector("output").textContent = said;
      line.setAttribute("aria-invalid", String(!said.startsWith("Right")));
      if (/^Right|Read on/.test(said)) unveil(line.id.slice(7)); // answer-1
    });
  }
})();
