// Answers the query of search.html?q=… and every change of it. The engine and the index
// are loaded with the first query.
{
  const field = document.getElementById("search-words");
  const summary = document.getElementById("search-summary");
  const list = document.getElementById("search-results");
  const title = document.title;
  const SHOWN = 20;

  const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const stem = (word) => // the same for pages and for queries
    word.length < 4 ? word
      : word.replace(/ies$/, "y").replace(/([^s])s$/, "$1").replace(/(\w{3})(?:ing|ed)$/, "$1");
  const stems = new Map(); // most words come often
  const term = (word) => {
    if (!stems.has(word)) stems.set(word, INDEX.common.includes(word) ? null : stem(word));
    return stems.get(word);
  };
  const terms = (text) => new Set(split(text).map(term).filter(Boolean));

  const load = (source) => new Promise((done, failed) => {
    const script = Object.assign(document.createElement("script"), { src: source });
    script.onload = done;
    script.onerror = () => failed(new Error(`${source} does not load`));
    document.head.append(script);
  });

  // The engine with what was counted of some terms when the site was built, in the form in
  // which it keeps an index (search_index.py). All terms would take a browser too long.
  const engineOf = ({ fields, lengths, words }, forms) => {
    const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
    const whole = {
      serializationVersion: 2,
      documentCount: lengths.length,
      nextId: lengths.length,
      documentIds: { ...[...lengths.keys()] },
      fieldIds: Object.fromEntries(fields.map((name, field) => [name, field])),
      fieldLength: { ...lengths },
      averageFieldLength: fields.map((_, at) => mean(lengths.flatMap((of) => of[at] ?? []))),
      storedFields: {},
      dirtCount: 0,
    };
    const places = (term) => {
      const times = fields.map(() => ({}));
      for (const word of forms.get(term)) {
        words[word].split("|").slice(1).forEach((list, field) => {
          let record = 0;
          for (const number of list ? list.split(" ").map(Number) : []) {
            if (number >= 0) record += number;
            times[field][record] = (times[field][record] ?? 0) + (number < 0 ? -number : 1);
          }
        });
      }
      return { ...times };
    };
    return (terms) => {
      const index = terms.filter((term) => forms.has(term)).map((term) => [term, places(term)]);
      return MiniSearch.loadJS({ ...whole, index }, { fields });
    };
  };

  let search; // once loaded: a function from a query to the records that answer it, and
  // whether it is a message that none of them is about
  const start = async () => {
    await Promise.all([load(field.dataset.engine), load(field.dataset.index)]);
    const pages = new Map(RECORDS.filter((r) => !r.page).map((r) => [r.url, r]));
    RECORDS.forEach((record, id) => {
      record.id = id;
      // What a section answers is an answer of its page, too; an entry of a list is none.
      if (record.page && /^(auto_examples|errors)\//.test(record.url)) {
        record.whole = pages.get(record.url.split("#")[0]);
      }
      record.terms = terms(record.title);
    });
    const recognise = recogniser(EXPRESSIONS, RECORDS.filter((record) => record.messages));
    const forms = new Map(); // of each term, such as "gradient" and "gradients"
    const counts = new Map();
    for (const [word, places] of Object.entries(INDEX.words)) {
      const counted = term(word);
      forms.set(counted, [...(forms.get(counted) ?? []), word]);
      counts.set(counted, (counts.get(counted) ?? 0) + Number.parseInt(places, 10));
    }
    const engine = engineOf(INDEX, forms);
    // In a long question most words are everybody's: the rarer, the more it says.
    const commonest = Math.log(2 * Math.max(...counts.values()));
    const boostTerm = (word) => Math.sqrt(commonest - Math.log(counts.get(word) ?? 1));
    return (query) => {
      const asked = terms(query);
      const weights = new Map(); // the engine asks once for each word
      const boostDocument = (id) => {
        if (!weights.has(id)) weights.set(id, weight(RECORDS[id], asked));
        return weights.get(id);
      };
      const found = engine([...asked]).search(query, {
        boost: { title: 1.5, code: 0.5, asked: 0.5 },
        boostDocument,
        boostTerm,
        tokenize: () => [...asked], // a word that is said twice counts once
        processTerm: (word) => word,
      });
      const scores = new Map();
      const add = (record, score) => scores.set(record, (scores.get(record) ?? 0) + score);
      for (const { id, score } of found) {
        add(RECORDS[id], score);
        if (RECORDS[id].whole) add(RECORDS[id].whole, 0.2 * score);
      }
      const ranked = [...scores].sort((a, b) => b[1] - a[1]).map(([record]) => record);
      const known = recognise(query);
      const records = [...new Set([...known, ...ranked])];
      return { records, unknown: !known.length && /\b[A-Z]\w*(?:Error|Warning): /.test(query) };
    };
  };

  // A title that is the query itself comes first; a page, or a question with its answer,
  // before a part of a page and a page about an error that is not named; a text before a list.
  const weight = ({ url, page, terms }, asked) => {
    const shared = [...terms].filter((word) => asked.has(word)).length;
    const likeness = (shared / terms.size) * (shared / asked.size) || 0;
    let kind = page && !url.startsWith("questions") ? 1 : 1.6;
    if (url.startsWith("errors/")) kind = shared > 0.6 * terms.size ? 1.6 : 1;
    else if (/^(api\/|corrections|errors|source_map)|index\.html/.test(url)) kind = 0.7;
    return kind * (1 + 4 * likeness);
  };

  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // The sentence or two around the first word of the query, that word marked.
  const excerpt = (text, asked) => {
    const words = [...text.matchAll(/[\p{L}\p{N}]+/gu)];
    const hit = (match) => asked.has(term(match[0].toLowerCase()));
    const first = words.findIndex(hit);
    const from = first < 12 ? 0 : words[first - 8].index;
    const piece = element("p", { className: "context" }, from ? "… " : "");
    let at = from;
    for (const match of words) {
      if (match.index < from || match.index > from + 220 || !hit(match)) continue;
      piece.append(text.slice(at, match.index), element("mark", {}, match[0]));
      at = match.index + match[0].length;
    }
    piece.append(text.slice(at, Math.max(at, from + 240)), from + 240 < text.length ? " …" : "");
    return piece;
  };

  const answer = async () => {
    const query = field.value.replace(/\s+/g, " ").trim();
    document.title = query ? `${query} – ${title}` : title;
    if (!query) return list.replaceChildren((summary.textContent = ""));
    search ??= start();
    const { records: found, unknown } = (await search)(query);
    if (query !== field.value.replace(/\s+/g, " ").trim()) return; // typed on meanwhile
    const asked = terms(query);
    const items = found.slice(0, SHOWN).map(({ url, title, page, text }) => {
      const item = element("li", {}, element("a", { href: url }, title));
      if (page) item.append(element("span", { className: "page" }, page));
      item.append(excerpt(text, asked));
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
