// What the search page and the search fields of all pages share: loads the scripts that
// search_index.py wrote when they are needed, as scripts, so that a folder will do.
const LEADS = {}; // of each page, how its records begin
const CARDS = {}; // of the page of a message: what to do

// torch.Size([2, 3]) and [2, 3] as (2, 3), as in a page.
const plain = (value) => {
  const shape = /^(?:torch\.Size\()?\[([\dj, ]*)\]\)?$/.exec(value);
  if (!shape) return value;
  const sizes = shape[1].split(",").map((size) => size.trim()).filter(Boolean);
  return sizes.length === 1 ? `(${sizes[0]},)` : `(${sizes.join(", ")})`;
};
const escaped = (text) =>
  text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

// What is to be done about a message, with the values that the pasted one carries.
const filled = ({ html, unknown }, values) =>
  html.replace(/\{(\w+)\}/g, (_, name) =>
    values[name] ? `<b>${escaped(plain(values[name]))}</b>` : unknown[name] ?? "…");

// Leaves the values to the page of the message, where yours.js puts them into the fix.
const leave = ({ url, values }) => {
  try {
    sessionStorage.setItem("yours", JSON.stringify({ url, values }));
  } catch {} // not for this reader: the page then shows the values of its example
};

const finder = (root) => {
  const loading = new Map();
  const load = (name) => {
    if (!loading.has(name))
      loading.set(name, new Promise((done, failed) => {
        const script = Object.assign(document.createElement("script"), { src: root + name });
        script.onload = done;
        script.onerror = () => failed(new Error(`${name} does not load`));
        document.head.append(script);
      }));
    return loading.get(name);
  };
  const once = (make) => {
    let made;
    return () => (made ??= make());
  };
  const messages = once(async () => {
    await Promise.all([load("_static/recognition.js"), load("searchmessages.js")]);
    return recogniser(EXPRESSIONS, MESSAGES);
  });
  const ranking = once(async () => {
    await Promise.all(["_static/ranking.js", "searchmessages.js", "searchindex.js"].map(load));
    return ranker(INDEX, MESSAGES);
  });
  // What a script of a page says, or nothing where there is none.
  const ofPage = async (url, of) => {
    const [page, anchor = ""] = url.split("#");
    await load(`leads/${page}.js`).catch(() => {});
    return [of[page], anchor];
  };
  return {
    // Loads all, so that the first answer is there at once.
    prepare: () => Promise.all([messages(), ranking()]),
    // The messages that a text holds: records of their pages, with the values of the reader.
    messages: async (text) =>
      (await messages())(text).map((entry) => {
        const matches = entry.messages.map((pattern) => new RegExp(pattern).exec(text));
        return { ...entry, values: matches.find(Boolean)?.groups ?? {} };
      }),
    lead: async (url) => {
      const [leads, anchor] = await ofPage(url, LEADS);
      return leads?.[anchor] ?? "";
    },
    card: async (url) => (await ofPage(url, CARDS))[0],
    // All answers, those first whose message the query holds.
    all: async (query, typing) => {
      const held = (await messages())(query);
      const { records, asks, covers } = (await ranking())(query, typing);
      const urls = new Set(held.map(({ url }) => url));
      const unknown = !held.length && /\b[A-Z]\w*(?:Error|Warning): /.test(query);
      return { records: [...held, ...records.filter(({ url }) => !urls.has(url))],
        asks, covers, unknown };
    },
  };
};
