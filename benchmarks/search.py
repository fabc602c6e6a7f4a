"""How long a reader waits for the search's first answer, and for those that follow.

Opens ``search.html?q=…`` of the built site in Chromium as on a first visit, with nothing
cached, and prints milliseconds from the start of the navigation until the answers stand
there; then what another question takes, and each of those that the tests ask: all questions
that somebody asked, and all messages as people paste them. Run ``python
benchmarks/search.py`` after ``nox -s docs`` on a calm machine.
"""

import json
import statistics
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "docs/_ext"))
from built import launched, served

TESTS = Path(__file__).parents[1] / "tests"
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


#: The same where the answers may be those of the question before.
TIME = """question => new Promise((done) => {
  const field = document.getElementById("search-words");
  const start = performance.now();
  field.value = question;
  field.dispatchEvent(new Event("input"));
  setTimeout(() => done(performance.now() - start));
})"""


def asked():
    """Return what the tests ask, by what it is."""
    lines = (TESTS / "questions.txt").read_text(encoding="utf-8").splitlines()
    messages = json.loads((TESTS / "pasted_messages.json").read_text(encoding="utf-8"))
    return {
        "a question": [line.split("\t")[0] for line in lines if "\t" in line],
        "a message": [" ".join(message.split()) for message in messages],
    }


def time_each(browser, address, queries):
    """Return the milliseconds that each query takes in a page that has its index."""
    page = browser.new_page()
    page.goto(f"{address}search.html?q=jacobian")
    page.wait_for_selector("#search-results li > a")
    times = [page.evaluate(TIME, query) for query in queries]
    page.close()
    return times


def main():
    """Visit the search some times; print the medians, and the longest of what is asked."""
    with served() as address, launched() as browser:
        visits = [visit(browser, address) for _ in range(VISITS)]
        each = {what: time_each(browser, address, of) for what, of in asked().items()}
    names = ("page parsed", "first answer", "later answer")
    for name, times in zip(names, zip(*visits, strict=True), strict=True):
        print(f"{name:13} {statistics.median(times):4.0f} ms")
    for what, times in each.items():
        median, longest = statistics.median(times), max(times)
        print(f"{what:13} {median:4.0f} ms, of {len(times)} the longest {longest:.0f} ms")


if __name__ == "__main__":
    main()
