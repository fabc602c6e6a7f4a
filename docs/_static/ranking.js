// Which records answer a query, the best first. BM25F (Robertson and Zaragoza 2009) over the
// words that search_index.py counted, with what a person's own words need besides: forms of
// a word, typos, and other names of the same thing. Nothing here touches a page, so that
// tests can ask without one.
const APOSTROPHE = /(?<=\p{L})['’](?:s(?![\p{L}\p{N}_])|(?=\p{L}))/gu; // "doesn't" is one word
const splitWords = (text) =>
  text.toLowerCase().replace(APOSTROPHE, "").match(/[\p{L}\p{N}]+/gu) ?? [];

// The same for the forms of one word, in pages and in queries.
const NEGATED = /^(?:no|never|without|cannot|(?:are|ca|did|do|does|is|was|wo)nt)$/;
const stemOf = (word) =>
  NEGATED.test(word) ? "not"
    : word.length < 4 ? word
    : word.replace(/ies$/, "y").replace(/([^s])s$/, "$1").replace(/(\w{3})(?:ing|ed)$/, "$1")
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

const FIELD_WEIGHTS = { title: 3, wordings: 2.5, page: 1, text: 1, code: 0.3, asked: 2 };
const SATURATION = 1.2; // of a word that is said again and again
const BY_LENGTH = 0.6; // how much a word counts for less in a longer text
const OTHER_NAME = 0.6; // what another name of the same thing counts
const TYPO = 0.8;
const PARTIAL = 0.5; // what a record counts that has next to nothing of a query
const OF_PAGE = 0.3; // what a section counts for its page
const WHOLE = 1.6; // what an answer counts, and a page, beside a part of a page
const FIX = 2; // and a page that starts from a symptom
const LIST = 0.7;
const TITLE = 2; // what a title counts that is like the query
const EXACT = 3; // and one that is the query
const LIKELY = 1000; // records whose titles are looked at

// Returns a function from a query to its `records`, whether it is a message that none of
// them is about (`unknown`), and `asked`, the words that count.
const ranker = (records, index, expressions) => {
  const { common, fields, lengths, words, same } = index;
  const silent = new Set(common);
  const stems = new Map(); // most words come often
  const stem = (word) => {
    if (!stems.has(word)) stems.set(word, silent.has(word) ? null : stemOf(word));
    return stems.get(word);
  };
  const terms = (text) => splitWords(text).map(stem).filter(Boolean);

  const forms = new Map(); // of each term, such as "gradient" and "gradients"
  for (const word of Object.keys(words)) {
    const of = stem(word);
    if (of) forms.set(of, [...(forms.get(of) ?? []), word]);
  }
  const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const averages = fields.map((_, at) => mean(lengths.flatMap((of) => of[at] ?? [])) || 1);
  const weights = fields.map((name) => FIELD_WEIGHTS[name]);

  // How often a term stands in each record, weighted by field.
  const counted = (term) => {
    const found = new Map();
    for (const word of forms.get(term) ?? []) {
      words[word].split("|").slice(1).forEach((list, field) => {
        let record = 0;
        for (const number of list ? list.split(" ").map(Number) : []) {
          if (number >= 0) record += number;
          const length = lengths[record][field] / averages[field];
          const times = number < 0 ? -number : 1;
          const more = (weights[field] * times) / (1 - BY_LENGTH + BY_LENGTH * length);
          found.set(record, (found.get(record) ?? 0) + more);
        }
      });
    }
    return found;
  };
  // The rarer a word, the more it says.
  const rarities = new Map();
  const rarity = (term) => {
    if (!rarities.has(term)) {
      const times = (forms.get(term) ?? []).map((word) => Number.parseInt(words[word], 10));
      const all = times.reduce((sum, number) => sum + number, 0);
      rarities.set(term, Math.log(1 + (2 * records.length) / (all + 1)));
    }
    return rarities.get(term);
  };
  const known = new Map(); // of each term that was asked for: what it gives each record
  const scored = (term) => {
    if (!known.has(term)) {
      const scores = counted(term);
      for (const [id, times] of scores)
        scores.set(id, (rarity(term) * times) / (SATURATION + times));
      known.set(term, scores);
    }
    return known.get(term);
  };

  // What an unknown word may have been meant to be, the commonest two.
  const meant = (word, last) => {
    if (word.length < 4) return [];
    const most = word.length < 6 ? 1 : 2;
    const near = [];
    for (const term of forms.keys()) {
      if (/\d/.test(term)) continue;
      const begun = last && term.startsWith(word); // still being typed
      const far = begun ? 0.5 : distance(word, term, most);
      if (far <= most) near.push({ term, far: far + (term[0] === word[0] ? 0 : 0.5) });
    }
    const nearest = Math.min(...near.map(({ far }) => far));
    return near.filter(({ far }) => far === nearest)
      .sort((a, b) => rarity(a.term) - rarity(b.term))
      .slice(0, 2).map(({ term }) => term);
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

  // A query as a list of concepts, each with its names: lists of terms with a weight.
  const concepts = (query) => {
    const asked = [...terms(query)];
    const found = new Map(); // a word that is said twice counts once
    for (let at = 0; at < asked.length; ) {
      const word = asked[at];
      let spelt = [word];
      if (!forms.has(word) && !names.has(word)) {
        const near = meant(word, at === asked.length - 1);
        if (near.length) asked[at] = near[0];
        spelt = near;
      }
      const here = (names.get(asked[at]) ?? []).filter(({ phrase }) =>
        phrase.every((term, i) => term === asked[at + i]));
      const longest = Math.max(1, ...here.map(({ phrase }) => phrase.length));
      const groups = here.filter(({ phrase }) => phrase.length === longest);
      const own = longest > 1 ? [asked.slice(at, at + longest)] : spelt.map((term) => [term]);
      const exact = spelt[0] === word ? 1 : TYPO;
      const alternatives = own.map((terms) => ({ terms, share: exact }));
      for (const { others } of groups)
        for (const other of others) alternatives.push({ terms: other, share: OTHER_NAME * exact });
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
        const value = share * sum.value * (sum.terms / terms.length) ** 2;
        if (value > (best.get(id) ?? 0)) best.set(id, value);
      }
    }
    return best;
  };

  const pages = new Map(records.filter((record) => !record.page).map((r) => [r.url, r]));
  records.forEach((record, id) => {
    record.id = id;
    // What a section answers is an answer of its page, too; an entry of a list is none.
    if (record.page && /^(auto_examples|errors|fix)\//.test(record.url)) {
      record.whole = pages.get(record.url.split("#")[0]);
    }
  });
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  const titles = (record) =>
    (record.titles ??= [record.title, ...(record.wordings ?? [])].map((title) => {
      const own = [...new Set(terms(title))];
      return { own, weight: sum(own.map(rarity)) };
    }));

  const recognise = recogniser(expressions, records.filter((record) => record.messages));

  // A title that is the query itself comes first; a page, or a question with its answer,
  // before a part of a page and a page about an error that is not named; a text before a list.
  const weight = (record, shares, parts, total) => {
    const { url, page } = record;
    const likenesses = titles(record).map(({ own, weight }) => {
      const shared = own.flatMap((term) => shares.get(term) ?? []);
      const best = new Map(); // of each concept
      for (const { concept, share } of shared)
        best.set(concept, Math.max(best.get(concept) ?? 0, share * parts[concept]));
      const named = sum(shared.map(({ share, term }) => share * rarity(term))) / weight || 0;
      return { named, all: sum([...best.values()]) / total || 0 };
    });
    const likeness = Math.max(...likenesses.map(({ named, all }) => named * all));
    let kind = page && !/^(answers\/|glossary)/.test(url) ? 1 : WHOLE;
    if (url.startsWith("errors/")) kind = likenesses[0].named > 0.6 ? WHOLE : 1;
    else if (url.startsWith("fix/")) kind = FIX;
    else if (/^(api\/|corrections|errors|source_map)|index\.html/.test(url)) kind = LIST;
    return kind * (1 + TITLE * likeness) * (likeness > 0.95 ? EXACT : 1);
  };

  return (query) => {
    const asked = concepts(query);
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
      for (const [id, value] of score(alternatives)) {
        const sum = sums.get(id) ?? { value: 0, covered: 0 };
        sums.set(id, { value: sum.value + value, covered: sum.covered + parts[at] });
      }
    });
    const likely = [...sums].map(([id, { value, covered }]) =>
      [records[id], value * (PARTIAL + covered / total)])
      .sort((a, b) => b[1] - a[1]).slice(0, LIKELY);
    const scores = new Map();
    const add = (record, value) => scores.set(record, (scores.get(record) ?? 0) + value);
    for (const [record, value] of likely) {
      const weighted = value * weight(record, shares, parts, total);
      add(record, weighted);
      if (record.whole) add(record.whole, OF_PAGE * weighted);
    }
    const ranked = [...scores].sort((a, b) => b[1] - a[1]).map(([record]) => record);
    const found = recognise(query);
    return {
      records: [...new Set([...found, ...ranked])],
      unknown: !found.length && /\b[A-Z]\w*(?:Error|Warning): /.test(query),
      asks: (word) => shares.has(stem(word)),
    };
  };
};
