// Which messages a pasted text holds: what `found` of pullback._recognition tells in Python,
// with the same expressions and patterns. An entry has a `line`, for the code that raises
// it, and `messages`, its patterns. Returns a function from a text to the entries that it
// holds, the likeliest first; tests/test_recognition.py holds both to the same answers.
const recogniser = (expressions, entries) => {
  const { error, frame, rank } = Object.fromEntries(
    Object.entries(expressions).map(([name, pattern]) => [name, new RegExp(pattern)]));
  const warning = new RegExp(expressions.warning, "g"); // every one
  const known = entries.map((entry) => ({
    entry,
    line: new RegExp(entry.line),
    messages: entry.messages.map((pattern) => new RegExp(pattern)),
  }));

  // The letters and digits that \w and \d mean in Python are more than those of JavaScript.
  const plain = (text) => text.replace(/[\p{L}\p{N}]/gu, (character) =>
    character < "\x80" ? character : /\p{Nd}/u.test(character) ? "0" : "x");

  // The line that raised, if a text that ends on the message shows one in a frame.
  const lineShown = (text) => {
    const frames = text.split(frame);
    const line = frames.pop().split(error)[0];
    return frames.length && /\w/.test(line.replace(rank, "")) ? line : null;
  };

  // Those in one part of a text, where it is known what stands before it.
  const held = (before, part) => known.filter(({ line, messages }) => {
    const at = messages.map((pattern) => pattern.exec(part)).find(Boolean);
    const shown = at && lineShown(before + part.slice(0, at.index + at[0].length));
    return at && (shown === null || line.test(shown));
  });

  // A traceback may hold several errors, and warnings before them: the last error counts.
  // If that one is unknown, an error before it may be its cause; a warning is not.
  return (pasted) => {
    const text = plain(pasted.replace(/\s+/g, " ").trim());
    const last = text.split(error).pop();
    const before = text.slice(0, text.length - last.length);
    const errors = text.replace(warning, "");
    const later = before || errors !== last ? held("", errors) : [];
    return [...new Set([...held(before, last), ...later])].map(({ entry }) => entry);
  };
};
