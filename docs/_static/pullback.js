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
