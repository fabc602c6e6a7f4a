/* Checks a typed v against vᵀJ and the asked-for derivative, both computed by torch when
   the page was built and stored with each form. Without scripts the forms stay hidden. */
(() => {
  const show = (numbers) =>
    "[" + numbers.map((n) => String(Number(n.toPrecision(4)) || 0)).join(", ") + "]";
  const tuple = (shape) =>
    "(" + shape.join(", ") + (shape.length === 1 ? ",)" : ")");
  const filled = (shape, number) =>
    shape.length ? Array.from({ length: shape[0] }, () => filled(shape.slice(1), number)) : number;

  /* Nested lists, numbers, fractions, and the constructors that one would type. */
  function read(text) {
    text = text.trim().replace(/^v\s*=/, "").replace(/torch\./g, "");
    text = text.replace(/\s*([[\](),/])\s*/g, "$1").trim();
    const made = text.match(/^(ones|zeros)\(\(?([\d,]*)\)?\)$/);
    if (made) {
      const shape = made[2].split(",").filter(Boolean).map(Number);
      return filled(shape, made[1] === "ones" ? 1 : 0);
    }
    text = text.replace(/^tensor\((.*)\)$/, "$1");
    if (!/^[-+\d.,/eE[\]]+$/.test(text)) throw new SyntaxError(text);
    const number = /[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?/y;
    let at = 0;
    const one = () => {
      number.lastIndex = at;
      const match = number.exec(text);
      if (!match) throw new SyntaxError(text);
      at = number.lastIndex;
      return Number(match[0]);
    };
    const item = () => {
      if (text[at] !== "[") {
        let value = one();
        while (text[at] === "/") { at += 1; value /= one(); }
        return value;
      }
      const list = [];
      at += 1;
      while (text[at] !== "]") {
        list.push(item());
        if (text[at] === ",") at += 1;
        else if (text[at] !== "]") throw new SyntaxError(text);
      }
      at += 1;
      return list;
    };
    const value = item();
    if (at !== text.length) throw new SyntaxError(text);
    return value;
  }

  function shapeOf(value) {
    if (!Array.isArray(value)) return [];
    const shapes = value.map((v) => JSON.stringify(shapeOf(v)));
    if (new Set(shapes).size > 1) throw new RangeError("ragged");
    return [value.length, ...(shapes.length ? JSON.parse(shapes[0]) : [])];
  }

  function verdict(text, { shape, rows, wanted }) {
    let v, given;
    try {
      v = read(text);
    } catch {
      return "Not read. Write v as numbers in brackets, such as [1, 0] or [[1, 0], [0, 1/2]].";
    }
    try {
      given = shapeOf(v);
    } catch {
      return "Not a tensor: the lists inside have different lengths.";
    }
    if (tuple(given) !== tuple(shape)) {
      return `Mismatch in shape: v has the shape ${tuple(given)}, and y has ${tuple(shape)}.`;
    }
    const weights = [v].flat(Infinity);
    const result = wanted.map((_, j) => weights.reduce((sum, w, i) => sum + w * rows[i][j], 0));
    const close = result.every((n, j) => Math.abs(n - wanted[j]) <= 1e-3 * (1 + Math.abs(wanted[j])));
    return close
      ? `Right: this v gives ${show(result)}.`
      : `Not yet: this v gives ${show(result)}, and ${show(wanted)} is asked for.`;
  }

  for (const form of document.querySelectorAll("form[data-exercise]")) {
    const exercise = JSON.parse(form.dataset.exercise);
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const said = verdict(form.elements.v.value, exercise);
      form.querySelector("output").textContent = said;
      form.elements.v.setAttribute("aria-invalid", String(!said.startsWith("Right")));
    });
  }
})();
