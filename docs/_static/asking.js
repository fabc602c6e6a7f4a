/* Covers what tells an answer, and asks for it: docs/_ext/asking.py stored with each form what
   typed.js compares with it. */
(() => {
  // What tells an answer lies under a cover, as high as it is, until a reader has given one
  // or asks for it. Who looks for words in it, or comes to it by a link, finds it open.
  const covered = () => [...document.querySelectorAll(".veil > [hidden]")];
  const boxOf = (part) => part?.closest(".veil")?.dataset.of ?? "none";
  const named = () => document.getElementById(location.hash.slice(1));
  const button = (textContent, onclick) =>
    Object.assign(document.createElement("button"), { textContent, onclick });
  const all = button("Show all", () => unveil());

  function unveil(box) {
    for (const part of covered())
      if (!box || boxOf(part) === box) {
        part.hidden = false;
        while (part.nextSibling) part.nextSibling.remove();
      }
    const [next, ...others] = covered();
    if (others.some((part) => boxOf(part) !== boxOf(next))) next.parentNode.append(all);
  }
  function hide(parts) {
    for (const part of parts) part.hidden = false;
    for (const part of parts) part.style.containIntrinsicHeight = `${part.getBoundingClientRect().height}px`;
    for (const part of parts) part.setAttribute("hidden", "onbeforematch" in window ? "until-found" : "");
  }
  function cover() {
    const at = named(), sought = at?.querySelector("h1") ? null : at;
    const parts = document.querySelectorAll(".veil > div");
    for (const part of parts) {
      part.after(button("Your prediction first — or show it", () => {
        unveil(boxOf(part));
        part.tabIndex = -1;
        part.focus({ preventScroll: true });
      }));
      part.nextSibling.ariaExpanded = false;
    }
    hide(parts);
    unveil("none");
    for (const part of parts)
      if (sought?.contains(part) || part.contains(sought)) unveil(boxOf(part));
  }
  addEventListener("resize", () => hide(covered()));
  addEventListener("hashchange", () => unveil(boxOf(named())));
  addEventListener("beforematch", ({ target }) => unveil(boxOf(target)));
  // Before that, pictures get their size.
  if (document.readyState === "complete") cover();
  else addEventListener("DOMContentLoaded", cover);

  const address = document.currentScript?.src;
  const trusted = window.trustedTypes?.createPolicy("asking", { createScriptURL: (url) => url });
  let loading;
  const load = () => (loading ??= window.verdict ? Promise.resolve() : new Promise((done, failed) => {
    const url = new URL("typed.js", address).href, src = trusted?.createScriptURL(url) ?? url;
    document.head.append(Object.assign(document.createElement("script"), { src, onload: done, onerror: failed }));
  }));
  // It comes behind the page, which then needs no network, or else with the first answer.
  const early = () => load().catch(() => { loading = undefined; });
  addEventListener("load", () => setTimeout(early, 2000));
  for (const form of document.querySelectorAll("form[data-asks]")) {
    const asks = JSON.parse(form.dataset.asks), said = form.querySelector("output");
    const inputs = [...form.querySelectorAll("input")];
    const label = form.querySelector("legend, label").textContent;
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const line = inputs.find((input) => input.checked) ?? inputs[0];
      said.textContent = "";
      const typed = asks.kind !== "choice" || line.checked ? line.value : "";
      try {
        await load();
      } catch {
        loading = undefined;
        said.textContent = "Not checked: a part of the page could not be loaded.";
        return;
      }
      said.textContent = window.verdict(typed, asks, label);
      const right = said.textContent.startsWith("Right");
      if (asks.kind !== "choice") line.setAttribute("aria-invalid", String(!right));
      if (right || said.textContent.endsWith("Read on to see why.")) unveil(said.id.slice(5)); // said-1
    });
  }
})();
