// Which records answer a query, the best first: BM25F (Robertson and Zaragoza 2009) over the
// names of a record and its text, with what a person's own words need besides: forms of a
// word, typos, and other names of the same thing (same.txt). A record is one heading with
// what stands under it; its names are the heading and the wordings in which people ask for
// it, each of which is compared as a whole. Nothing here touches a page, so that tests can
// ask without one, and search_index.py has texts cut into words by the same functions.
const APOSTROPHE = /(?<=\p{L})['’](?:s(?![\p{L}\p{N}_])|(?=\p{L}))/gu; // "doesn't" is one word
const WORD = /[\p{L}\p{N}]+/gu;
// What counts as a whole, too: a name such as zero_grad, an attribute such as .data, and an
// assignment such as +=.
const WHOLE_NAME = /\p{L}[\p{L}\p{N}]*(?:_[\p{L}\p{N}]+)+|(?<![\d.])\.[a-z]\w*|[-+*/@]=/gu;
const splitWords = (text) => {
  const plain = text.toLowerCase().replace(APOSTROPHE, "");
  return [...(plain.match(WORD) ?? []), ...(plain.match(WHOLE_NAME) ?? [])];
};

// The same for the forms of one word, in pages and in queries.
const NEGATED = /^(?:no|never|without|cannot|(?:are|ca|did|do|does|is|was|wo)nt)$/;
const stemOf = (word) =>
  NEGATED.test(word) ? "not"
    : word.length < 4 || !/^[\p{L}\p{N}]+$/u.test(word) ? word
    : word.replace(/([iy])z(?=(?:e|ed|es|ers?|ing|ations?|able)$)/, "$1s") // optimize
      .replace(/(backward)\d$/, "$1")
      .replace(/ies$/, "y").replace(/([^s])s$/, "$1").replace(/(\w{3})(?:ing|ed)$/, "$1")
      .replace(/([bdgmnprt])\1$/, "$1").replace(/(....)e$/, "$1");

// How many letters were left out, added, changed or swapped with their neighbour; at most
// `most`, else Infinity.
const distance = (a, b, most) => {
  if (Math.abs(a.length - b.length) > most) return Infinity;
  let [before, last] = [[], [...Array(b.length + 1).keys()]];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    if (Math.min(...row) > most) return Infinity;
    [before, last] = [last, row];
  }
  return last[b.length] > most ? Infinity : last[b.length];
};

const WEIGHTS = {
  title: 3,
  wording: 1.2,
  words: 3.2, // what an entry is asked for with, and does not say
  many: 0.4, // how much such a word counts for less among many of them
  wordings: 0.4, // how much a word of the wordings counts for less among many of them
  saturation: 1.2, // of a word that is said again and again
  length: 0.6, // how much a word of the text counts for less in a longer one
  rare: 0.7, // the power of how much more a rare word says
  talk: 0.5, // of what it says, what a word of talk does, however rare it is
  otherName: 0.6, // what another name of the same thing counts
  typo: 0.8,
  joined: 0.9, // "check point" for "checkpoint", and the other way round
  partial: 0.75, // what a record counts that has next to nothing of a query
  ofPage: 0.1, // what its best section counts for a page
  named: 2.5, // what a name counts that is like the query
  covered: 1.4, // the power of what part of the query is in a name
  exact: 2, // a name that has the words of the query, and no other that counts
  verbatim: 1.5, // and one that is the query, word for word
  linked: 0.12, // how much more a record counts that many pages link to
  page: 1.15, // what a page counts beside a section of one
  answer: 1.17,
  term: 1.3,
  defined: 2, // and a term, where it is asked what something is
  fix: 1.6, // a page that starts from a symptom
  general: 2, // how much more the best page counts, nearly, where a query says next to nothing
  message: 1.4, // the page of a message; one that is quoted counts as a page
  raised: 1.4, // and more where the query says that something raises, fails or warns
  typed: 3, // and where the query is a part of the message, typed by hand
  quoted: 2, // and still more where the query is nothing but a longer part of it
  list: 0.7, // a page that lists what others explain
  special: 0.8, // an entry whose title names a library that the query does not name
  versus: 1.5, // an entry that has a name with both of the things that the query compares
};
const FEW = 4; // things that a query names, from which on it is as special as an entry
const WORDINGS = 14; // words in all the wordings of a record, on the average
const PART = 0.8; // of the query that is in a message, in its order, where it was typed by hand
const LONG = 6; // terms of a query that is a part of a message and of nothing else
const TOLD = 0.6; // how like a query a name of a page is that stands before a term
const QUOTED = 0.4; // how like its title a query is that quotes a message
const WORDS = 24; // words of an entry, on the average
const LIKELY = 1000; // records whose names are looked at
const RAISES = /\b(?:errors?|warnings?|warns|exception|raises?|crash(?:es|ed)?|complains?|message|fail(?:s|ed)?|not (?:implemented|supported|allowed)|must be|expected|cannot|can['’]?t)\b/i;
const DEFINES = /\b(?:what(?:['’]?s| is| are| does)|define|definition|meaning|mean\W*$)/i;
// Two things that are compared, not "before or after".
const VERSUS = /(?!before\b)\b(\S+)\s+(?:vs\.?|versus|or|(?:the\s+)?same\s+as)\s+(\S+)|between\s+(\S+)\s+and\s+(\S+)/gi;
const TALK = "again although always call come end even exactly find give go happen keep look make"
  + " properly put return say see someone sometimes stuff suddenly take tell thing though turn use work";
const LIBRARIES = "accelerate accelerator captum deepspeed lightning opacus trainer";

// How somebody wants to be answered, which says nothing of what they ask.
const MANNER = /\bin (?:simple|plain|easy|other|a few|layman'?s) (?:words|terms)\b|\blike i'?m (?:5|five)\b|\beli5\b|\bfor (?:dummies|beginners)\b/gi;

// What search_index.py has packed: the records with their titles, as a list of terms for
// each wording, and in which texts, wordings and words each term is.
const ZERO = "@".charCodeAt(0);
const numbers = (text) => [...text].map((sign) => sign.charCodeAt(0) - ZERO);
const unpacked = (index) => {
  let whole; // the page of the sections after it
  const links = numbers(index.links);
  const records = index.urls.map((url, id) => {
    const title = index.titles[id];
    const record = { id, url, title, links: links[id], asked: [] };
    if (!url.startsWith("#")) return (whole = record);
    const anchor = url === "#" ? anchorOf(title) : url;
    return Object.assign(record, { url: whole.url + anchor, page: whole.title, whole });
  });
  const said = numbers(index.said);
  const asked = numbers(index.wordings).flatMap((many, id) => Array(many).fill(records[id]))
    .map((record, at) => {
      const wording = { own: [], length: said[at] };
      record.asked.push(wording);
      return wording;
    });
  const places = (lists, size) => {
    let first = 0;
    return lists.split(" ").map((list) => {
      const found = [];
      let at = first;
      for (const number of numbers(list))
        if (number < 0) found.at(-1).times -= number;
        else found.push({ id: (at = (at + number) % size), times: 1 });
      first = found[0]?.id ?? first;
      return found;
    });
  };
  const terms = index.terms.split(" ");
  places(index.asked, asked.length).forEach((found, at) => {
    for (const { id } of found) asked[id].own.push(terms[at]);
  });
  return {
    records, terms,
    texts: places(index.texts, records.length),
    words: places(index.words, records.length),
  };
};
// The anchor that a title has, if the index tells no other.
const anchorOf = (title) =>
  `#${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^[-0-9]+|-$/g, "")}`;

// What a regular expression of a message says in words.
const inWords = (pattern) => pattern
  .replace(/\[([A-Za-z])[A-Za-z]\]/g, "$1") // [Ee]lement
  .replace(/\\[[\]]|\[(?:\\.|[^\]])*\]|\(\?<\w+>|\\[a-zA-Z]/g, " ");

// Returns a function from a query, whose last word may be unfinished, to its `records`, the
// best first, `asks`, which tells the words that count, and `covers`, which tells what part
// of the query a text names; its own `records` are all.
const ranker = (index, messages, W = WEIGHTS) => {
  const { common, same, areas = {} } = index; // one that a browser has kept may have no areas
  const areaOf = (url) => Object.keys(areas).find((area) =>
    areas[area].some((start) => url.startsWith(start)));
  const silent = new Set(common);
  const stems = new Map(); // most words come often
  const stem = (word) => {
    if (!stems.has(word)) stems.set(word, silent.has(word) ? null : stemOf(word));
    return stems.get(word);
  };
  const terms = (text) => splitWords(text).map(stem).filter(Boolean);
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const special = new Set(terms(LIBRARIES));
  const talk = new Set(terms(TALK));

  // How often each term stands in each record, weighted by where.
  const counted = new Map();
  const count = (term, id, times) => {
    if (!counted.has(term)) counted.set(term, new Map());
    const found = counted.get(term);
    found.set(id, (found.get(id) ?? 0) + times);
  };
  const { records, terms: known, texts, words } = unpacked(index);
  const different = (lists) => { // terms of each record
    const found = records.map(() => 0);
    for (const list of lists) for (const { id } of list) found[id] += 1;
    return found;
  };
  const lengths = different(texts);
  const average = sum(lengths) / lengths.length || 1;
  const many = different(words);
  known.forEach((term, at) => {
    for (const { id, times } of texts[at])
      count(term, id, times / (1 - W.length + (W.length * lengths[id]) / average));
    for (const { id } of words[at]) count(term, id, W.words / (1 - W.many + (W.many * many[id]) / WORDS));
  });
  for (const record of records) {
    const { id, url, page, title, asked } = record;
    const area = record.area = areaOf(url);
    const titles = (area === "term" ? title.split(", ") : [title]).map((name) =>
      ({ own: [...new Set(terms(name))], length: splitWords(name).length }));
    const many = sum(asked.map(({ own }) => own.length)) / WORDINGS;
    const wording = W.wording * Math.min(1.5, 1 / (1 - W.wordings + W.wordings * many));
    for (const { own } of titles) for (const term of own) count(term, id, W.title);
    for (const { own } of asked) for (const term of own) count(term, id, wording);
    record.names = [...titles, ...asked];
    record.special = area === "message" ? []
      : titles.flatMap(({ own }) => own.filter((term) => special.has(term)));
    // What a section answers is an answer of its page, too; an entry of a list is none.
    if (!["example", "fix", "message"].includes(area)) record.whole = undefined;
    record.general = !page && (area === "fix" || area === "example");
    const kind = area === "message" ? W.message
      : area === "fix" ? W.fix
      : area === "list" ? W.list
      : !page ? W.page
      : area === "answer" ? W.answer
      : area === "term" ? W.term : 1;
    const more = 1 + W.linked * Math.log(1 + record.links);
    record.kind = kind * more;
    if (kind === W.message && !page) record.quoted = W.page * more;
  }
  // The rarer a word, the more it says.
  const rarities = new Map();
  const rarity = (term) => {
    if (!rarities.has(term)) {
      const places = counted.get(term)?.size ?? 0;
      const rare = Math.log(1 + (records.length - places + 0.5) / (places + 0.5));
      rarities.set(term, rare ** W.rare * (talk.has(term) ? W.talk : 1));
    }
    return rarities.get(term);
  };
  for (const { names } of records)
    for (const name of names) name.weight = sum(name.own.map(rarity));
  const given = new Map(); // of each term that was asked for: what it gives each record
  const scored = (term) => {
    if (!given.has(term)) {
      const scores = new Map(counted.get(term) ?? []);
      for (const [id, times] of scores)
        scores.set(id, (rarity(term) * times) / (W.saturation + times));
      given.set(term, scores);
    }
    return given.get(term);
  };

  // What an unknown word may have been meant to be, the commonest two.
  const meant = (word, last) => {
    if (word.length < 4) return [];
    const most = word.length < 6 ? 1 : 2;
    const near = [];
    const like = word.includes("_") ? /^\p{L}+_[\p{L}_]+$/u : /^\p{L}+$/u; // such as retian_graph
    for (const term of counted.keys()) {
      if (!like.test(term)) continue;
      const begun = last && term.startsWith(word); // still being typed
      const far = begun ? 0.5 : distance(word, term, most);
      if (far <= most) near.push({ term, far: far + (term[0] === word[0] ? 0 : 0.5) });
    }
    const nearest = Math.min(...near.map(({ far }) => far));
    return near.filter(({ far }) => far === nearest)
      .sort((a, b) => rarity(a.term) - rarity(b.term))
      .slice(0, 2).map(({ term }) => term);
  };

  // The commonest words that begin like one that is still being typed.
  const begun = (word) => [...counted.keys()]
    .filter((term) => term !== word && term.startsWith(word))
    .sort((a, b) => rarity(a) - rarity(b)).slice(0, 3);

  // The two halves of a word that hardly any record writes as one.
  const halves = (word) => {
    const found = [];
    const common = (term) => counted.get(term)?.size > 1;
    if (word.length > 5 && !/\P{L}/u.test(word) && !(counted.get(word)?.size > 3))
      for (let at = 3; at <= word.length - 3; at++) {
        const pair = [stemOf(word.slice(0, at)), stemOf(word.slice(at))];
        if (pair.every(common)) found.push(pair);
      }
    return found;
  };

  // Groups of names of the same thing, by the first word of each name.
  const names = new Map();
  for (const group of same) {
    const phrases = group.map(terms);
    for (const phrase of phrases) {
      const others = phrases.filter((other) => other !== phrase);
      names.set(phrase[0], [...(names.get(phrase[0]) ?? []), { phrase, others }]);
    }
  }

  // A query as a list of concepts, each with its names: lists of terms with a share.
  const concepts = (query, typing) => {
    const asked = [...terms(query)];
    const found = new Map(); // a word that is said twice counts once
    for (let at = 0; at < asked.length; ) {
      const word = asked[at];
      let spelt = [word];
      if (!counted.has(word) && !names.has(word)) {
        const near = meant(word, at === asked.length - 1);
        if (near.length) asked[at] = near[0];
        spelt = near;
      }
      const here = (names.get(asked[at]) ?? []).filter(({ phrase }) =>
        phrase.every((term, i) => term === asked[at + i]));
      const longest = Math.max(1, ...here.map(({ phrase }) => phrase.length));
      const groups = here.filter(({ phrase }) => phrase.length === longest);
      const own = longest > 1 ? [asked.slice(at, at + longest)] : spelt.map((term) => [term]);
      const exact = spelt[0] === word ? 1 : W.typo;
      const alternatives = own.map((terms) => ({ terms, share: exact }));
      for (const { others } of groups)
        for (const terms of others) alternatives.push({ terms, share: W.otherName * exact });
      if (longest === 1) {
        for (const joined of [asked[at - 1] + word, word + asked[at + 1]].map(stemOf))
          if (counted.has(joined)) alternatives.push({ terms: [joined], share: W.joined });
        for (const terms of halves(word)) alternatives.push({ terms, share: W.joined });
      }
      if (typing && at + longest === asked.length)
        for (const term of begun(word)) alternatives.push({ terms: [term], share: W.typo });
      found.set(asked.slice(at, at + longest).join(" "), alternatives);
      at += longest;
    }
    return [...found.values()].filter((alternatives) => alternatives.length);
  };

  const score = (alternatives) => {
    const best = new Map();
    for (const { terms, share } of alternatives) {
      const sums = new Map();
      for (const term of terms)
        for (const [id, value] of scored(term)) {
          const sum = sums.get(id) ?? { value: 0, terms: 0 };
          sums.set(id, { value: sum.value + value, terms: sum.terms + 1 });
        }
      for (const [id, sum] of sums) {
        const there = sum.terms / terms.length;
        const value = share * sum.value * there ** 2;
        const { value: other, sure } = best.get(id) ?? { value: 0, sure: 0 };
        best.set(id, { value: Math.max(value, other), sure: Math.max(share * there, sure) });
      }
    }
    return best;
  };

  // What part of the query some terms of it cover.
  const covered = (shared, parts, total) => {
    const best = new Map(); // of each concept
    for (const { concept, share } of shared)
      best.set(concept, Math.max(best.get(concept) ?? 0, share * parts[concept]));
    return sum([...best.values()]) / total || 0;
  };

  // How like the query a name is: what part of either is in the other.
  const likeness = ({ own, weight }, shares, parts, total) => {
    const shared = own.flatMap((term) => shares.get(term) ?? []);
    if (!shared.length) return 0; // most names
    const named = sum(shared.map(({ share, term }) => share * rarity(term))) / weight || 0;
    return named * covered(shared, parts, total) ** W.covered;
  };

  // Whether a query is a part of a message, typed by hand: at least four of its terms, most
  // of which are in the message, in its order; or three and more that follow one another.
  const ordered = (text) => terms(text).filter((term) => /^\p{L}+$/u.test(term));
  const worded = new Map(messages.map(({ url, messages }) =>
    [url, messages.map((pattern) => ordered(inWords(pattern)))]));
  const within = (own, other) => ` ${other.join(" ")} `.includes(` ${own.join(" ")} `);
  const typed = (own, { url }) => own.length > 2 && worded.get(url)?.some((other) => {
    if (within(own, other)) return true;
    let most = Array(other.length + 1).fill(0); // what is in the same order in both
    for (const term of own) {
      const row = [0];
      other.forEach((word, at) => row.push(
        Math.max(row[at], most[at + 1], word === term ? most[at] + rarity(term) : 0)));
      most = row;
    }
    return own.length > 3 && most.at(-1) > PART * sum(own.map(rarity));
  });

  const quoted = (own, { url }) =>
    own.length >= LONG && worded.get(url)?.some((other) => within(own, other));

  // The terms of each two things that a query compares; of zero_grad the whole name.
  const compared = (query) => [...query.matchAll(VERSUS)].map((found) =>
    found.slice(1).filter(Boolean).map((side) => {
      const own = terms(side.replace(/\(.*|=.*|^(?:\w+\.)+(?=\w)/g, ""));
      return own.length > 1 ? own.slice(-1) : own;
    })).filter((sides) => sides.every((own) => own.length)).map((sides) => sides.flat());

  const rank = (said, typing = false) => {
    const query = said.replace(MANNER, " ");
    const pairs = compared(query);
    const inOrder = ordered(query);
    const asked = concepts(query, typing);
    const raises = RAISES.test(query);
    const defines = terms(query).length <= (DEFINES.test(query) ? 2 : 1);
    const own = new Set(terms(query));
    const { length } = splitWords(query);
    const verbatim = (name) => name.length === length && name.own.length === own.size
      && name.own.every((term) => own.has(term));
    const parts = asked.map(([{ terms }]) => Math.max(...terms.map(rarity)));
    const total = sum(parts);
    const shares = new Map(); // of each term, which concept it names, and how well
    asked.forEach((alternatives, concept) => {
      for (const { terms, share } of alternatives)
        for (const term of terms)
          if (share > (shares.get(term)?.share ?? 0))
            shares.set(term, { term, concept, share: share / Math.sqrt(terms.length) });
    });
    const sums = new Map();
    asked.forEach((alternatives, at) => {
      for (const [id, { value, sure }] of score(alternatives)) {
        const sum = sums.get(id) ?? { value: 0, covered: 0 };
        sums.set(id, { value: sum.value + value, covered: sum.covered + sure * parts[at] });
      }
    });
    const likely = [...sums].map(([id, { value, covered }]) =>
      [records[id], value * (W.partial + covered / total)])
      .sort((a, b) => b[1] - a[1]).slice(0, LIKELY);
    const scores = new Map();
    const likes = new Map(); // how like the query the name of each is that is most like it
    const best = new Map(); // what the best section gives its page
    for (const [record, value] of likely) {
      const like = record.names.map((name) => likeness(name, shares, parts, total));
      const most = Math.max(...like);
      likes.set(record, most);
      const kind = like[0] > QUOTED ? (record.quoted ?? record.kind) : record.kind;
      const fits = raises && record.area === "message" ? W.raised
        : defines && record.area === "term" && record.page ? W.defined : 1;
      const unasked = record.special.length && !record.special.some((term) => shares.has(term));
      const both = pairs.some((pair) =>
        record.names.some(({ own }) => pair.every((term) => own.includes(term))));
      const weighted = value * kind * fits * (typed(inOrder, record) ? W.typed : 1)
        * (quoted(inOrder, record) ? W.quoted : 1)
        * (unasked ? W.special : 1) * (both ? W.versus : 1)
        * (1 + W.named * most) * (most > 0.95 ? W.exact : 1)
        * (record.names.some(verbatim) ? W.verbatim : 1);
      scores.set(record, weighted);
      const { whole } = record;
      if (whole) best.set(whole, Math.max(weighted, best.get(whole) ?? 0));
    }
    // Who says little assumes little: a page of many cases goes before an entry on one of them.
    const [broad] = [...scores].filter(([{ general }]) => general).sort((a, b) => b[1] - a[1]);
    if (broad) scores.set(broad[0], broad[1] * W.general ** Math.max(0, 1 - asked.length / FEW));
    for (const [page, value] of best)
      scores.set(page, (scores.get(page) ?? 0) + W.ofPage * value);
    const sorted = [...scores].sort((a, b) => b[1] - a[1]).map(([record]) => record);
    // A term says in a sentence what a page that is asked for in the same words explains.
    const page = sorted.slice(0, 3).findIndex((record) =>
      ["answer", "example"].includes(record.area) && likes.get(record) >= TOLD);
    if (page > 0 && sorted.slice(0, page).every(({ area }) => area === "term"))
      sorted.unshift(...sorted.splice(page, 1));
    return {
      records: sorted,
      asks: (word) => shares.has(stem(word)),
      covers: (text) => covered(terms(text).flatMap((term) => shares.get(term) ?? []), parts, total),
    };
  };
  return Object.assign(rank, { records });
};
