// What is wider than its column scrolls in itself: let the keyboard reach it.
{
  const wide = "pre:not([aria-hidden]), div.math, .table-wrapper, .cell_output, .output_html, .sphx-glr-script-out";
  const update = ({ target }) => {
    const scrolls = target.scrollWidth > target.clientWidth + 1;
    if (!scrolls) return target.removeAttribute("tabindex");
    target.tabIndex = 0;
  };
  const observer = new ResizeObserver((entries) => entries.forEach(update));
  document.querySelectorAll(wide).forEach((element) => observer.observe(element));
}

// A message pasted from a terminal may run over several lines, which a search field would
// glue together; of a long traceback the message is the end.
document.querySelectorAll("input[name=q]").forEach((field) =>
  field.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text").replace(/\s+/g, " ").trim().slice(-2000);
    event.preventDefault();
    field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }),
);

// Ctrl+K (on a Mac ⌘K) goes to the search field.
document.addEventListener("keydown", (event) => {
  if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  document.querySelector("#search-words, .sidebar-search").focus();
});
