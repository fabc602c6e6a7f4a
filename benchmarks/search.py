"""How long a reader waits for the search's first answer, and for those that follow.

Opens ``search.html?q=…`` of the built site in Chromium as on a first visit, with nothing
cached, and prints milliseconds from the start of the navigation until the answers stand
there; then what another question takes. Run ``python benchmarks/search.py`` after
``nox -s docs`` on a calm machine.
"""

import statistics
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from built import launched, served

VISITS = 9
QUESTION = "why do I have to pass ones to backward"
WATCH = """
new MutationObserver(() => {
  if (document.querySelector("#search-results li")) window.answered ??= performance.now();
}).observe(document, { childList: true, subtree: true });
"""
ASK = """question => new Promise((done) => {
  const start = performance.now();
  const list = document.getElementById("search-results");
  const seen = new MutationObserver(() => done(performance.now() - start));
  seen.observe(list, { childList: true });
  const field = document.getElementById("search-words");
  field.value = question;
  field.dispatchEvent(new Event("input"));
})"""


def visit(browser, address):
    """Return the milliseconds to the parsed page, to its answers, and to later ones."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(f"{address}search.html?q={quote(QUESTION)}")
    page.wait_for_function("window.answered")
    parsed = page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    first = page.evaluate("window.answered")
    later = page.evaluate(ASK, "grad can be implicitly created only for scalar outputs")
    context.close()
    return parsed, first, later


def main():
    """Visit the search some times; print the medians."""
    with served() as address, launched() as browser:
        visits = [visit(browser, address) for _ in range(VISITS)]
    names = ("page parsed", "first answer", "later answer")
    for name, times in zip(names, zip(*visits, strict=True), strict=True):
        print(f"{name:13} {statistics.median(times):4.0f} ms")


if __name__ == "__main__":
    main()
