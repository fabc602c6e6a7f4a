// Answers the query of search.html?q=… and every change of it, the first result as a card:
// what a message wants, in the reader's own shapes and names, or how the page answers.
{
  const field = document.getElementById("search-words");
  const summary = document.getElementById("search-summary");
  const list = document.getElementById("search-results");
  const title = document.title;
  const found = finder(""); // the page stands at the root of the site
  const SHOWN = 10; // at once; a button shows as many more
  const PAUSE = 250; // ms without a key, after which a card is worth its loading
  const PROSE = 420; // characters of a card, about
  const MORE = 1.5; // times what a page's opening names, if it shows code, must a section name to be shown
  const ENOUGH = 0.8; // of what the best section names: the first that does is shown
  const CODE = [".highlight-ipython3", ".highlight-Python", ".highlight-python",
    ".highlight-default", ".highlight-pycon", ".highlight-py"].join(", ");

  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const typed = () => field.value.replace(/\s+/g, " ").trim();
  const pause = () => new Promise((done) => setTimeout(done, PAUSE));

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

  const code = (text) => {
    const block = element("div", { className: "highlight-python" },
      element("div", { className: "highlight" }, element("pre", {}, `${text}\n`)));
    return block;
  };

  // What is to be done about a message, with the values that the pasted one carries, and why;
  // nothing where the page is not that of a message.
  const advice = async ({ url, values }) => {
    const card = await found.card(url);
    if (!card) return null;
    const answer = element("div", { className: "answer", innerHTML: filled(card, values) });
    if (card.works) answer.append(code(card.works));
    answer.append(element("div", { innerHTML: card.why }));
    return answer;
  };

  // How a part of a page begins: its first sentences and the first code there, but none that
  // fails on purpose where some follows that works.
  const fails = (block) => /^\s*except\b/m.test(block.textContent);
  const passage = (under) => {
    const parts = [];
    let length = 0;
    let works = null;
    for (const part of under.children) {
      if (works || part.matches("section, details.hide")) break;
      const block = part.matches(CODE) ? part : part.querySelector(`:scope > ${CODE}, .cell_input ${CODE}`);
      if (part.matches("p, ul, ol, .math, blockquote") && length < PROSE) {
        parts.push(part);
        length += part.textContent.length;
      } else if (block && !part.matches(".admonition, details, .message")) {
        parts.push(block);
        if (length && !fails(block)) works = block;
      }
    }
    const shown = parts.filter((part) => !works || part === works || !part.matches(CODE) || !fails(part));
    return { under, parts: shown, text: shown.map((part) => part.textContent).join(" "), works };
  };

  // How a page answers: as it begins, or as that section of it does which names much more of
  // the query, since a page may begin with a story.
  const parser = new DOMParser();
  const answerOf = async (url, covers) => {
    const [path, anchor] = url.split("#");
    const response = await fetch(path).catch(() => null); // none from a folder
    if (!response?.ok) return null;
    const page = parser.parseFromString(await response.text(), "text/html");
    const place = anchor ? page.getElementById(anchor) : page.querySelector("article section");
    const under = place?.matches("dt") ? place.nextElementSibling : place?.closest("section");
    if (!under) return null;
    const opening = passage(under);
    const sections = [...(anchor ? [] : under.querySelectorAll(":scope > section:not(#where-next)"))]
      .map(passage).map((part) => ({ ...part, covers: covers(part.text) }));
    const most = Math.max(0, ...sections.map((part) => part.covers));
    const better = most > covers(opening.text) * (opening.works ? MORE : 1)
      && sections.find((part) => part.covers >= ENOUGH * most);
    const answer = element("div", { className: "answer" });
    if (better) {
      const { id } = better.under;
      const title = better.under.firstElementChild.firstChild.textContent;
      answer.append(element("p", {}, element("a", { href: `#${id}` }, title)));
    }
    for (const part of (better || opening).parts) answer.append(document.importNode(part, true));
    answer.querySelectorAll("[id]").forEach((part) => part.removeAttribute("id"));
    answer.querySelectorAll(".headerlink, .copybtn").forEach((part) => part.remove());
    const base = new URL(path, location);
    for (const name of ["href", "src"])
      for (const part of answer.querySelectorAll(`[${name}]`))
        part[name] = new URL(part.getAttribute(name), base).href;
    return answer.childElementCount ? answer : null;
  };

  const asItem = (record, asks) => {
    const item = element("li", {}, element("a", { href: record.url }, record.title));
    if (record.page) item.append(element("span", { className: "page" }, record.page));
    const lead = item.appendChild(element("p", { className: "context" }));
    found.lead(record.url).then((text) => lead.isConnected && lead.replaceWith(excerpt(text, asks)));
    return item;
  };

  // Puts the answer into an item, unless another query has been typed meanwhile.
  const asCard = async (item, making, kind) => {
    const answer = await making;
    if (!answer || !item.isConnected) return;
    item.classList.add("card");
    if (kind) item.prepend(element("p", { className: "kind" }, kind));
    item.querySelector(".context")?.remove();
    item.append(answer);
    dressCode(answer);
  };

  const YOURS = "This is your error";
  const show = async () => {
    const query = typed();
    document.title = query ? `${query} – ${title}` : title;
    if (!query) return list.replaceChildren((summary.textContent = ""));
    const [message] = await found.messages(query);
    if (query !== typed()) return;
    const nothing = () => false;
    const cards = element("ul", { className: "search" });
    if (message) { // before the rest has been loaded
      leave(message);
      const first = asItem(message, nothing);
      list.replaceChildren(cards);
      cards.append(first);
      asCard(first, advice(message), YOURS);
    }
    const { records, unknown, asks, covers } = await found.all(query);
    if (query !== typed()) return;
    const left = records.filter(({ url }) => url !== message?.url);
    const all = records.length;
    const more = () => {
      cards.append(...left.splice(0, SHOWN - (cards.childElementCount % SHOWN))
        .map((record) => asItem(record, asks)));
      button.hidden = !left.length;
      const shown = `${cards.childElementCount} of ${all} answers`;
      summary.textContent = all && unknown
        ? `No page is about this message. ${shown} share words with it:`
        : all ? `${shown}, the best first`
        : "Nothing found. Try other words, or fewer.";
    };
    const button = element("button", { type: "button", className: "more", onclick: more }, "More answers");
    more();
    list.replaceChildren(cards, button);
    if (message || unknown || !all) return;
    await pause();
    const first = cards.firstElementChild;
    const { url } = records[0];
    const making = async () => (await advice({ url, values: {} })) ?? answerOf(url, covers);
    if (first.isConnected) asCard(first, making());
  };

  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => {
    const address = field.value ? `?q=${encodeURIComponent(field.value)}` : location.pathname;
    if (location.protocol !== "file:") history.replaceState(null, "", address);
    show();
  });
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.focus(); // Enter goes to the first answer, Enter again opens it
  });
  show();
}
