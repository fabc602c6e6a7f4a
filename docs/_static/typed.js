/* Reads an answer, and says what it is: right, a guess that the page has computed as well,
   or of another form. asking.js loads it behind the page. */
(() => {
  const show = (numbers) =>
    `[${numbers.map((n) => String(Number(n.toPrecision(4)))).join(", ")}]`;
  const tuple = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const same = (a, b) => String(a) === String(b);
  const each = (value, f) => (Array.isArray(value) ? value.map((v) => each(v, f)) : f(value));
  const range = (n, f) => Array.from({ length: Math.min(n, 1e3) }, (_, i) => f(i));
  const fail = (text) => { throw new SyntaxError(text); };
  function filled(sizes, value) {
    if (sizes.reduce((a, b) => a * b, 1) > 1e4) fail("too large to be typed");
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

  // The signs that stand between two numbers: 2+3 and 2 + 3, but not 2 +3.
  function tokensOf(text) {
    const tokens = [];
    for (const [, before, token, after] of text.matchAll(
      /(\s*)((?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[a-z_][\w.]*|\S)(?=(\s*))/gi))
      tokens.push(/^[-+]$/.test(token) && !before === !after
        && /^[\w.)\]]/.test(tokens.at(-1) ?? "") ? `${token}${token}` : token);
    return tokens;
  }

  // Reads a tensor as one types it, as a number or nested lists; brackets and commas
  // may be missing. like(name) is the shape of a tensor; without a name, of the answer.
  function read(text, like) {
    const tokens = tokensOf(text.replace(/^\s*[a-z_][\w.]*\s*=/i, "")
      .replace(/\b(torch|nn|functional|F|np)\./g, "").replace(/,\s*\w+\s*=\s*[\w.]+/g, "")
      .replace(/\.[a-z]+\(\)/g, "").replace(/(\d) *[x×] *(?=\d)/g, "$1, "));
    const take = (wanted) => tokens[0] === wanted && tokens.shift();
    const number = (value) => (typeof value === "number" ? value : fail(text));
    // Both values, number by number; one number goes with each.
    function both(a, b, f) {
      if (!Array.isArray(a)) return each(b, (n) => f(a, n));
      if (!Array.isArray(b)) return each(a, (n) => f(n, b));
      return a.length === b.length ? a.map((part, i) => both(part, b[i], f)) : fail(text);
    }
    function sum() {
      let value = product(), sign;
      while ((sign = take("++") || take("--")))
        value = both(value, product(), (a, b) => (sign === "++" ? a + b : a - b));
      return value;
    }
    function product() {
      let value = signed(), sign;
      while ((sign = take("*") || take("/"))) {
        const other = signed();
        if (sign === "/" || Array.isArray(value)) number(other);
        value = both(value, other, (a, b) => (sign === "*" ? a * b : a / b));
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
      } else if (/^(ones|zeros)$/.test(token)) value = filled(like(), Number(token === "ones"));
      else fail(text);
      return take("[") ? value[number(list("]")[0][0])] ?? fail(text) : value;
    }
    // Entries to a bracket or the end, and how many commas.
    function list(close) {
      const entries = [];
      let commas = 0;
      while (tokens[0] !== close) {
        entries.push(sum());
        if (take(",")) commas += 1;
      }
      tokens.shift();
      return [entries, commas];
    }
    const [entries, commas] = list(undefined);
    if (!entries.length) fail(text);
    const value = entries.length === 1 && !commas ? entries[0] : entries;
    return numbersOf(value).every(Number.isFinite) ? value : fail(text);
  }

  const COUNTED = "zero one two three four five six seven eight nine ten eleven twelve".split(" ");
  const ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split(" ");
  const PARTS = { half: 2, quarter: 4 };
  ORDINALS.slice(2).forEach((name, i) => { PARTS[name] = i + 3; });
  const LARGE = { hundred: 1e2, thousand: 1e3, million: 1e6, billion: 1e9 };
  // Words that change nothing in a number behind them.
  const BEFORE = new Set(("a an about all and are approximately as be both each equals every "
    + "exactly i is it its nearly of only rate rates roughly shape still the there they think with")
    .split(" "));

  // What is written in words as it would be in numbers: eight, two thirds, minus 4, 10 pushes.
  // Words before a number are harmless, or of the label; a comparison is no answer.
  function inNumbers(text, label) {
    if (/\b(no|not|never|less|more|fewer|than|or|between|least|most)\b|n't/i.test(text)) fail(text);
    const known = new Set(label.toLowerCase().match(/[a-z]+/g));
    const written = text.toLowerCase().replace(/\btwice\b|\bdouble\b/g, "2")
      .replace(/\b[a-z]+\b/g, (word) => (COUNTED.includes(word) ? COUNTED.indexOf(word) : word))
      .replace(/(?:\b(\d+|an?)\s+)?\b([a-z]+?)s?\b/g, (all, n, part) =>
        (Object.hasOwn(PARTS, part) ? `${n > 0 ? n : 1}/${PARTS[part]}` : all))
      .replace(/(?:\b(\d+(?:\.\d+)?|an?)\s+)?\b(hundred|thousand|[mb]illion)s?\b/g, (_, n, size) =>
        String((n > 0 ? n : 1) * LARGE[size]))
      .replace(/\b(?:minus|negative)\s*(?=[\d.])/g, "-").replace(/,?\s*\b(?:by|and|then)\b|;/g, ",")
      .replace(/[.!]\s*$/, "");
    return written.split(",").map((entry) => {
      const [, before, kept, after] =
        entry.trim().match(/^((?:[a-z]+[\s:]+)*)([^a-z]*?)((?:\s*\b[a-z]+)*)$/) ?? fail(text);
      if ((before.match(/[a-z]+/g) ?? []).some((word) => !BEFORE.has(word) && !known.has(word)))
        fail(text);
      return kept.trim() || after ? kept : fail(text);
    }).join(",");
  }

  // Reads an answer as code, or else in words.
  function understood(text, like, label) {
    try {
      return read(text, like);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return read(inNumbers(text, label), like);
    }
  }

  const unread = (kind) => `Not read. Write ${kind === "largest" ? "which one, such as 2" : "numbers, such as 8 or [1, 1/2]"}.`;
  const ON = " Read on to see why.";
  const count = (n, name) => `${n === 1 ? "one" : n} ${name}${n === 1 ? "" : "s"}`;
  const asked = (n) => `${n === 1 ? "one is" : `${n} are`} asked for.`;

  // A guess that the page has computed as well.
  const known = ({ wrong = [] }, is) => wrong.find(is)?.said;

  function weigh(v, asks) {
    const { shape, rows, wanted } = asks, weights = numbersOf(v), given = shapeOf(v);
    const itself = same(weights, wanted) ? " These are the derivatives that it should give." : "";
    if (!same(given, shape)) return `Mismatch in shape: v has the shape ${tuple(given)}, and y has ${tuple(shape)}.${itself}`;
    const result = wanted.map((_, j) => weights.reduce((sum, w, i) => sum + w * rows[i][j], 0));
    if (result.every((n, j) => Math.abs(n - wanted[j]) <= 1e-3 * (1 + Math.abs(wanted[j]))))
      return `Right: this v gives ${show(result)}.`;
    const row = same([...weights].sort(), [...weights.slice(1).map(() => 0), 1]);
    const said = known(asks, (guess) => agrees(v, guess)) ?? (itself.trim()
      || (weights.every((n) => n === 1) && "Ones add up all rows.") || (row && "A single 1 takes one row.") || "");
    return `Not yet: this v gives ${show(result)}, and ${show(wanted)} is asked for.${said && ` ${said}`}`;
  }

  // Whether these numbers were typed; one number may stand for all of them, and a list for
  // the rows of a table.
  function agrees(value, { shape, numbers, slack }) {
    const given = shapeOf(value), typed = numbersOf(value);
    const near = (n, i) => Math.abs(n - numbers[i]) <= (slack?.[i] ?? 0);
    if (typed.length === 1) return numbers?.length > 0 && numbers.every((_, i) => near(typed[0], i));
    return typed.length === numbers?.length && (same(given, shape) || given.length === 1)
      && typed.every(near);
  }

  // What wrong numbers have to do with the right ones.
  function related(typed, given, asks) {
    const { shape, numbers } = asks, flat = { ...asks, shape: [numbers.length] };
    const is = (other) => agrees(other, flat);
    if (is(typed.map((n) => -n))) return typed.length === 1 ? "The sign is the other one." : "Each number has the other sign.";
    if (typed.length === 1) return `The answer is ${typed[0] < numbers[0] ? "larger" : "smaller"}.`;
    const off = typed[0] - numbers[0];
    if (is(typed.map((n) => n - off))) return `Each number is ${Number(Math.abs(off).toPrecision(3))} too ${off > 0 ? "large" : "small"}.`;
    if (!typed.some(Boolean)) return "";
    if (given.length === 2 && same([...given].reverse(), shape)
      && is(numbers.map((_, i) => typed[(i % shape[1]) * shape[0] + Math.floor(i / shape[1])])))
      return "Rows and columns are swapped.";
    const sorted = (list) => list.map((n, i) => [n, i]).sort(([a], [b]) => a - b).map(([, i]) => i);
    const from = sorted(typed), to = sorted(numbers), moved = [];
    to.forEach((place, i) => { moved[place] = typed[from[i]]; });
    if (is(moved)) return "The numbers are right, in another order.";
    const squares = numbers.reduce((sum, n) => sum + n * n, 0);
    const factor = typed.reduce((sum, n, i) => sum + n * numbers[i], 0) / squares;
    if (squares && factor && is(typed.map((n) => n / factor)))
      return `Each number is ${Number(factor.toPrecision(3))} times the right one.`;
    return "";
  }

  function compare(value, text, asks) {
    const { shape, numbers, slack, text: shown, unit } = asks;
    const given = shapeOf(value), typed = numbersOf(value);
    const full = unit && typed.every((n) => (unit > 1 ? n >= unit / 10 : n % 1));
    const inUnits = full ? each(value, (n) => n / unit) : value;
    const is = (guess) => agrees(value, guess) || agrees(inUnits, guess);
    if (is(asks)) return `Right: ${shown}.`;
    const said = known(asks, is);
    if (said) return `Not so. ${said}${ON}`;
    if (/Size\b|\.shape\b|^\s*\(\s*\d+\s*,\s*\)\s*$/.test(text)) return "That is a shape, and numbers are asked for.";
    const n = numbers.length;
    if (typed.length !== n) return /^\s*\([\d,\s]+\)\s*$/.test(text)
      ? `That looks like a shape, and ${count(n, "number")} ${n === 1 ? "is" : "are"} asked for.`
      : `You wrote ${count(typed.length, "number")}, and ${asked(n)}`;
    const relation = related(typed, given, asks);
    if (relation) return `Not so. ${relation}${ON}`;
    if (!same(given, shape) && given.length !== 1) return `Yours has the shape ${tuple(given)}, and the answer has ${tuple(shape)}.`;
    const right = typed.filter((n, i) => Math.abs(n - numbers[i]) <= slack[i]).length;
    return (right ? `${right} of the ${typed.length} are right.` : "Not so.") + ON;
  }

  function compareShape(text, asks, like, label) {
    const { numbers, shapes } = asks;
    const name = text.replace(/\b(the|same|shape|as|that|of|like|it|is|has|looks)\b|['’]s\b|\.shape\b|[\x60.?]/gi, " ").trim();
    const value = shapes[name] || understood(text.replace(/\b(rows?|columns?)\b/gi, " "), like, label);
    const typed = numbersOf(value);
    if (shapeOf(value).length > 1 || typed.some((n) => n < 0 || n % 1) || /\btensor\b/.test(text))
      return "A shape is asked for, such as (2, 3).";
    if (same(typed, numbers)) return `Right: ${tuple(numbers)}.`;
    const said = known(asks, (guess) => same(guess.is, typed));
    if (said) return `Not so. ${said}${ON}`;
    const owner = Object.keys(shapes).find((key) => same(shapes[key], typed));
    if (owner) return `${tuple(typed)} is the shape of ${owner}.${ON}`;
    const sorted = (sizes) => [...sizes].sort((a, b) => a - b);
    if (same(sorted(typed), sorted(numbers))) return `Not ${tuple(typed)}. The sizes are right, in another order.${ON}`;
    return `Not ${tuple(typed)}${typed.length === numbers.length ? "" : `: the answer has ${count(numbers.length, "dimension")}`}.${ON}`;
  }

  // Which entry: the second, 2, 2nd, stove 2, x[1], the last.
  function comparePlace(text, asks, label) {
    const { place, numbers, text: shown } = asks;
    const word = [...ORDINALS, "last"].findIndex((name) => new RegExp(`\\b${name}\\b`, "i").test(text));
    const plain = text.replace(/[a-z]+/gi, (name) => {
      const at = COUNTED.indexOf(name.toLowerCase());
      return at < 0 ? name : at;
    });
    const one = plain.match(/^[^\d.]*(\d+)(?:\.0*|st|nd|rd|th)?[^\d.]*$/);
    const ordinal = one && /\d(?:st|nd|rd|th)\b/.test(plain);
    const base = !ordinal && (/from 0/.test(label) || /[a-z]\[/.test(text)) ? 0 : 1;
    if ((word < 0 && !one) || /-\s*\d|\b(not|or)\b|n't/i.test(plain)) return "";
    const typed = word === ORDINALS.length ? numbers.length - 1 : word < 0 ? one[1] - base : word;
    if (!(typed in numbers)) return `There are ${numbers.length} of them.`;
    const told = `the ${ORDINALS[typed] || `${typed + 1}th`}`;
    if (typed === place) return `Right, ${told}: ${shown}.`;
    const said = known(asks, (guess) => guess.is === typed);
    return `Not ${told}.${said ? ` ${said}` : ""}${ON}`;
  }

  function compareSigns(text, asks, like, label) {
    const wanted = asks.numbers.map(Math.sign), n = wanted.length;
    const plain = text.replace(/[-−–](?![1-9.]|0\.)|\b(negative|minus|down)\b/gi, " -1 ")
      .replace(/\+(?![1-9.]|0\.)|\b(positive|plus|up)\b/gi, " 1 ")
      .replace(/\b(zero|unchanged|same)\b/gi, " 0 ");
    const all = /\b(all|each|every|both)\b/i.test(plain) && plain.match(/-?\d+/g);
    const typed = all?.length === 1 ? range(n, () => Math.sign(all[0]))
      : numbersOf(understood(plain, like, label)).map(Math.sign);
    if (typed.length !== n) return `You wrote ${count(typed.length, "sign")}, and ${asked(n)}`;
    if (same(typed, wanted)) return `Right: ${asks.text}.`;
    const said = known(asks, (guess) => same(guess.is, typed));
    if (said) return `Not so. ${said}${ON}`;
    const right = typed.filter((sign, i) => sign === wanted[i]).length;
    return (right ? `${right} of the ${n} signs are right.` : "Not these signs.") + ON;
  }

  function choose(text, { right, said }) {
    if (text === "") return "Choose one first.";
    const why = said[text] ? ` ${said[text]}` : "";
    return Number(text) === right ? `Right.${why}` : `Not so.${why}${ON}`;
  }

  // What is said to an answer: what begins with Right is right, what ends on ON a guess.
  // label is what the line to type in is called.
  function verdict(typed, asks, label = "") {
    const { kind, shape, shapes } = asks;
    if (kind === "choice") return choose(typed, asks);
    const like = (name) => shapes?.[name] || shape || fail("no shape");
    let text = typed.replace(/[−–]/g, "-").replace(/[¼-¾⅐-⅞]/g, (part) => ` ${part.normalize("NFKD")}`)
      .replace(/⁄/g, "/");
    const without = /\b(?:no|without(?: an)?) errors?\b[\s,.;:]*/i;
    if (without.test(text) && !(text = text.replace(without, "")).trim()) return "No error, indeed. The answer itself is asked for, too.";
    if (!/\d/.test(text) && /\b(errors?|exception|raises?|refused?|refuses|fails?|mismatch)\b/i.test(text))
      return `Not so. There is no error.${ON}`;
    if (kind !== "shape" && shape?.length === 0) text = text.replace(/^(\D*\d{1,3})((?:,\d{3})+)(?![\d,.])/, (_, head, rest) => head + rest.replaceAll(",", ""));
    const unit = /\bmillions\b/.test(label) ? 1e6 : /\bninths\b/.test(label) ? 1 / 9 : 0;
    try {
      if (kind === "shape") return compareShape(text, asks, like, label);
      if (kind === "signs") return compareSigns(text, asks, like, label);
      const said = kind === "largest" && comparePlace(text, asks, label);
      if (said) return said;
      if (kind === "value" && /^\s*(none|null)\s*\.?$/i.test(text)) return `Not so. It is not None.${ON}`;
      const value = understood(text, like, label);
      if (kind === "largest" && numbersOf(value).length !== asks.numbers.length) fail();
      return kind === "v" ? weigh(value, asks) : compare(value, text, { ...asks, unit });
    } catch (error) {
      if (error instanceof RangeError) return "Not a tensor: the lists inside have different lengths.";
      if (error instanceof SyntaxError) return unread(kind);
      throw error;
    }
  }

  if (typeof document === "undefined") module.exports = { read, verdict }; // for its tests
  else window.verdict = verdict;
})();
