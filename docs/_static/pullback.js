// What is wider than its column scrolls in itself: let the keyboard reach it.
const watchWidth = (part) => {
  const wide = "pre:not([aria-hidden]), div.math, .table-wrapper, .cell_output, .output_html, .sphx-glr-script-out";
  const update = ({ target }) => {
    const scrolls = target.scrollWidth > target.clientWidth + 1;
    if (!scrolls) return target.removeAttribute("tabindex");
    target.tabIndex = 0;
  };
  const observer = new ResizeObserver((entries) => entries.forEach(update));
  part.querySelectorAll(wide).forEach((element) => observer.observe(element));
};

// A message pasted from a terminal may run over several lines, which a search field would
// glue together; of a long traceback the message is the end.
document.querySelectorAll("input[name=q]").forEach((field) =>
  field.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text").replace(/\s+/g, " ").trim().slice(-2000);
    event.preventDefault();
    field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }),
);

// The field of the menu answers while one types; what that takes is loaded with the focus.
const menuField = document.querySelector(".sidebar-search");
const loadedScripts = new Map();
const loadScripts = async (...names) => {
  for (const name of names) {
    if (!loadedScripts.has(name))
      loadedScripts.set(name, new Promise((done, failed) => document.head.append(
        Object.assign(document.createElement("script"), {
          src: `${menuField.dataset.root}_static/${name}.js`, onload: done, onerror: failed,
        }))));
    await loadedScripts.get(name);
  }
};
menuField?.addEventListener("focus", () => loadScripts("finding", "suggest"), { once: true });

// The page of a message that was pasted says what to do with the reader's own shapes.
if (menuField && location.pathname.includes("/errors/")) {
  let yours;
  try {
    yours = JSON.parse(sessionStorage.getItem("yours"));
  } catch {} // none is kept for this reader
  if (yours && location.pathname.endsWith(`/${yours.url}`)) loadScripts("finding", "yours");
}

// Ctrl+K (on a Mac ⌘K) goes to the search field.
document.addEventListener("keydown", (event) => {
  if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  document.querySelector("#search-words, .sidebar-search").focus();
});

// Outside of fields and scrolled boxes, the arrow keys turn the pages.
document.addEventListener("keydown", (event) => {
  const way = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const held = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
  if (!way || held || event.target !== document.body) return;
  document.querySelector(`.${way}-page`)?.click();
});

// The menu opens where you are.
{
  const here = document.querySelector(".sidebar-tree [aria-current]");
  const menu = here?.closest(".sidebar-scroll");
  const below = menu ? here.getBoundingClientRect().bottom - menu.getBoundingClientRect().bottom : 0;
  if (below > 0) menu.scrollTo({ top: below + menu.clientHeight / 2, behavior: "instant" });
}

// Where code wraps, each line becomes an element, which shows where it goes on (pullback.css).
// What is coloured over several lines, such as a docstring, is coloured in each. A
// line never wraps behind the spaces that it begins with, which would leave a row empty;
// what is copied has spaces there again.
const wrapLines = (part) => {
  const TAG = /<(\/?)(\w+)[^>]*>/g;
  for (const block of part.querySelectorAll(":is(.highlight-ipython3, .highlight-python, .highlight-Python) pre")) {
    let open = [];
    const lines = block.innerHTML.replace(/\n+$/, "").split("\n").map((line) => {
      const before = open.join("");
      for (const [tag, closes] of line.matchAll(TAG)) closes ? open.pop() : open.push(tag);
      const after = open.map((tag) => `</${tag.match(/\w+/)[0]}>`).reverse().join("");
      const indented = line.replace(/^((?:<[^>]*>)*)( +)/, (_, tags, spaces) =>
        tags + "\xa0".repeat(spaces.length));
      return `<span class="line">${before}${indented}${after}\n</span>`;
    });
    block.innerHTML = lines.join("");
  }
};

const withSpaces = (text) => text.replaceAll("\xa0", " ");
document.addEventListener("copy", (event) => {
  const text = String(getSelection());
  if (!text.includes("\xa0") || event.target.closest?.("input, textarea")) return;
  event.clipboardData.setData("text/plain", withSpaces(text));
  event.preventDefault();
});

// A button that copies code as one would type it: no prompt, nothing that is printed, and
// no assert, which checks this site and nothing of the reader's.
const addCopyButtons = (part) => {
  const PROMPT = /^(?:>>>|\.\.\.|\$) ?/;
  const ASSERT = /^assert\b.*\n?(?:[ \t)].*\n?)*/gm; // to the end of its last line
  const icon = (name) => `<i class="icon-${name}"></i>`;
  const typed = (block) => {
    const text = withSpaces(block.textContent).replace(/\n*$/, "\n");
    if (!block.querySelector(".gp")) return text;
    const lines = text.split("\n").filter((line) => PROMPT.test(line));
    return lines.map((line) => `${line.replace(PROMPT, "")}\n`).join("");
  };
  const kinds = ["ipython3", "python", "Python", "pycon", "console"].map((name) => `.highlight-${name}`);
  for (const block of part.querySelectorAll(`:is(.doctest, ${kinds}) pre`)) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "copybtn", innerHTML: icon("copy") });
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      const whole = typed(block);
      const text = whole.replace(ASSERT, "");
      await navigator.clipboard.writeText(text.trim() ? text : whole);
      button.innerHTML = icon("done");
      setTimeout(() => (button.innerHTML = icon("copy")), 2000);
    });
    block.prepend(button);
  }
};

// What is done to the code of a page, and to what the search shows of one.
const dressCode = (part) => {
  if (matchMedia("(max-width: 46em)").matches) wrapLines(part);
  if (navigator.clipboard) addCopyButtons(part);
  watchWidth(part);
};
dressCode(document);

if (navigator.clipboard) {
  // The link to a page's Markdown copies it; without a clipboard it leads there.
  for (const link of document.querySelectorAll("a[data-copy]"))
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      const answer = await fetch(link.href).catch(() => null); // none from a folder
      if (!answer?.ok) return location.assign(link.href);
      await navigator.clipboard.writeText(await answer.text());
      const said = link.textContent;
      link.textContent = "Copied";
      setTimeout(() => (link.textContent = said), 2000);
    });
}
