// On the page of a message that was pasted into the search: puts its shapes and names into
// the fix, in the place of those of the page's own example. Loaded by pullback.js where
// finding.js has left some.
{
  const { url, values } = JSON.parse(sessionStorage.getItem("yours"));
  const section = document.getElementById("do-this");

  // The blocks of text that hold no other, in their order.
  const blocks = (parts) =>
    parts.flatMap((part) => [part, ...part.querySelectorAll("p, li, th, td")])
      .filter((part) => part.matches("p, li, th, td") && !part.querySelector("p, li, th, td"));
  const spelt = (text) => text.replace(/[‘’]/g, "'").replace(/[“”]/g, '"')
    .replace(/[–—]|--+/g, "-").replace(/\.\.\./g, "…").replace(/\s+/g, " ").trim();
  const sameText = (template, text) => {
    const parts = spelt(template).split(/\{\w+\}/);
    const pattern = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*");
    return new RegExp(`^${pattern}$`).test(spelt(text));
  };

  const fill = async () => {
    const card = await finder(menuField.dataset.root).card(url);
    if (!card || !Object.values(values).some(Boolean)) return;
    const template = document.createElement("div");
    template.innerHTML = card.html;
    const code = section.querySelector(":scope > [class*=highlight-]");
    const upToCode = [...section.children].filter((part) => !code
      || part.compareDocumentPosition(code) & Node.DOCUMENT_POSITION_FOLLOWING);
    const own = blocks(upToCode);
    let changed = false;
    blocks([...template.children]).forEach((block, at) => {
      const asked = /\{(\w+)\}/.exec(block.textContent);
      if (!asked || !sameText(block.textContent, own[at].textContent)) return;
      own[at].innerHTML = filled({ html: block.innerHTML, unknown: card.unknown }, values);
      changed = true;
    });
    if (changed)
      section.querySelector("h2").after(Object.assign(document.createElement("p"), {
        className: "yours", textContent: "With the shapes and names of the message that you pasted:",
      }));
  };
  if (section) fill();
}
