// Answers the query of search.html?q=… and every change of it. The index is loaded
// with the first query.
{
  const field = document.getElementById("search-words");
  const summary = document.getElementById("search-summary");
  const list = document.getElementById("search-results");
  const title = document.title;
  const SHOWN = 20;

  const load = (source) => new Promise((done, failed) => {
    const script = Object.assign(document.createElement("script"), { src: source });
    script.onload = done;
    script.onerror = () => failed(new Error(`${source} does not load`));
    document.head.append(script);
  });

  let search; // once loaded: what `ranker` of ranking.js returns
  const start = async () => {
    await load(field.dataset.index);
    return ranker(RECORDS, INDEX, EXPRESSIONS);
  };

  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // How a text begins, the words of the query marked.
  const excerpt = (text, asks) => {
    const piece = element("p", { className: "context" });
    let at = 0;
    for (const match of text.matchAll(/[\p{L}\p{N}]+/gu)) {
      if (!asks(match[0].toLowerCase())) continue;
      piece.append(text.slice(at, match.index), element("mark", {}, match[0]));
      at = match.index + match[0].length;
    }
    piece.append(text.slice(at));
    return piece;
  };

  const answer = async () => {
    const query = field.value.replace(/\s+/g, " ").trim();
    document.title = query ? `${query} – ${title}` : title;
    if (!query) return list.replaceChildren((summary.textContent = ""));
    search ??= start();
    const { records: found, unknown, asks } = (await search)(query);
    if (query !== field.value.replace(/\s+/g, " ").trim()) return; // typed on meanwhile
    const items = found.slice(0, SHOWN).map(({ url, title, page, text }) => {
      const item = element("li", {}, element("a", { href: url }, title));
      if (page) item.append(element("span", { className: "page" }, page));
      item.append(excerpt(text, asks));
      return item;
    });
    list.replaceChildren(element("ul", { className: "search" }, ...items));
    const shown = `${Math.min(found.length, SHOWN)} of ${found.length} answers`;
    summary.textContent = found.length && unknown
      ? `No page is about this message. ${shown} share words with it:`
      : found.length
      ? `${shown}, the best first`
      : "Nothing found. Try other words, or fewer.";
  };

  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => {
    const address = field.value ? `?q=${encodeURIComponent(field.value)}` : location.pathname;
    if (location.protocol !== "file:") history.replaceState(null, "", address);
    answer();
  });
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.focus(); // Enter goes to the first answer, Enter again opens it
  });
  answer();
}
