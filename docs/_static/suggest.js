// Answers under the search field of a page, while somebody types: a combobox with a list
// (https://www.w3.org/WAI/ARIA/apg/patterns/combobox/). Loaded when the field is first used.
{
  const field = document.querySelector(".sidebar-search");
  const { root } = field.dataset;
  const found = finder(root);
  const SHOWN = 7;
  const PAUSE = 120; // ms without a key
  const list = document.createElement("ul");
  Object.assign(list, { id: "suggestions", className: "suggestions", hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Answers");
  field.form.append(list);
  for (const [name, value] of Object.entries({
    role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": false,
    autocomplete: "off",
  })) field.setAttribute(name, value);

  let chosen = -1;
  const choose = (at) => {
    list.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = at;
    const option = list.children[chosen];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
  };
  const open = (shown) => {
    list.hidden = !shown;
    field.setAttribute("aria-expanded", String(shown));
    if (!shown) return choose(-1);
    const { left, bottom } = field.getBoundingClientRect();
    list.style.left = `${Math.max(8, left)}px`;
    list.style.top = `${bottom + 4}px`;
  };
  const asOption = ({ url, title, page }, at) => {
    const option = document.createElement("li");
    option.id = `suggestion-${at}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    option.dataset.url = root + url;
    option.append(title);
    if (page) option.append(Object.assign(document.createElement("span"), { textContent: page }));
    return option;
  };
  const suggest = async () => {
    const query = field.value.replace(/\s+/g, " ").trim();
    if (query.length < 2) return open(false);
    const { records } = await found.all(query, true);
    if (query !== field.value.replace(/\s+/g, " ").trim()) return; // typed on meanwhile
    const [message] = await found.messages(query);
    if (message) leave(message);
    choose(-1);
    list.dataset.query = query; // what the options answer
    list.replaceChildren(...records.slice(0, SHOWN).map(asOption));
    open(records.length > 0 && document.activeElement === field);
  };

  let waiting;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(suggest, PAUSE);
  });
  field.addEventListener("focus", () => field.value && suggest());
  field.addEventListener("blur", () => open(false));
  field.addEventListener("keydown", (event) => {
    const count = list.hidden ? 0 : list.childElementCount;
    if (event.key === "Escape" && count) open(false);
    else if (event.key === "Enter" && count && chosen >= 0)
      location.assign(list.children[chosen].dataset.url);
    else if (event.key === "ArrowDown" && count) choose((chosen + 1) % count);
    else if (event.key === "ArrowUp" && count) choose(((chosen < 0 ? count : chosen) - 1 + count) % count);
    else return;
    event.preventDefault(); // an Enter without a choice opens the search page
  });
  list.addEventListener("pointerdown", (event) => {
    const option = event.target.closest("li");
    event.preventDefault(); // the field keeps the focus
    if (option && event.button === 0) location.assign(option.dataset.url);
  });
  found.prepare().then(() => field.value && suggest());
}
