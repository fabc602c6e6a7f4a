(() => {
  function start(walk) {
    const all = selector => [...walk.querySelectorAll(selector)];
    const [back, next] = all("button"), items = all("li"), last = items.length - 1;
    const said = walk.querySelector("output"), view = walk.querySelector(".pb-scroll");
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const numbers = walk.closest("form"); // that follow x and v are shown all at first
    let now = numbers ? last : 0;

    function show() {
      all("[data-step]").forEach(part => {
        part.classList.toggle("pb-now", Number(part.dataset.step) === now);
        part.classList.toggle("pb-in", Number(part.dataset.to) === now);
        part.classList.toggle("pb-later", Number(part.dataset.step) > now);
      });
      items.forEach((item, k) => k === now
        ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current"));
      back.setAttribute("aria-disabled", now === 0);
      next.setAttribute("aria-disabled", now === last);
      said.textContent = `Step ${now + 1} of ${last + 1}: ${items[now].textContent}`;
    }

    function go(step) {
      now = Math.min(Math.max(step, 0), last);
      show();
      // a picture wider than its place scrolls to the node, and the page stays
      const box = walk.querySelector(".pb-now rect").getBoundingClientRect();
      const place = view.getBoundingClientRect();
      view.scrollBy({
        left: (box.left + box.right - place.left - place.right) / 2,
        behavior: still.matches ? "auto" : "smooth",
      });
    }

    all("button").forEach(button => {
      button.addEventListener("click", () => go(now + Number(button.value)));
      button.addEventListener("keydown", event => {
        const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
        if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        go(to);
      });
    });
    all(".pb-walk, output").forEach(part => part.hidden = false);
    walk.querySelector("details").open = false;
    walk.dataset.ready = "";
    walk.addEventListener("moved", () => {
      show();
      const told = items.map(item => item.textContent).join(" ");
      walk.querySelector("svg").setAttribute("aria-label", `The way back. ${told}`);
    });
    show();
  }

  // every fragment on the page has this script; the first to run starts those so far
  document.querySelectorAll(".pb-steps:not([data-ready])").forEach(start);
})()
