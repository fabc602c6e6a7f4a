"""The site's search in a real browser: what people type, and what they paste.

Needs Chromium and, but for the last tests, a built site; skips, and says so, without.
"""

import gzip
from urllib.parse import quote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from built import CHAPTER, DESKTOP, SITE, needs_chromium, needs_site
from entries import ENTRIES
from executed import ROOT
from forks import run_module
from ranking import pasted_messages
from sites import conf
from sweeps import one_in

import search_index
from pullback._recognition import EXPRESSIONS

pytestmark = needs_chromium

FOUND = "#search-results li > a"
PHONE = {"width": 360, "height": 740}
CLIPBOARD = ["clipboard-read", "clipboard-write"]
ASK = """([query, found]) => new Promise(done => {
  const field = document.getElementById("search-words");
  field.value = query;
  field.dispatchEvent(new Event("input"));
  setTimeout(() => done(
    [...document.querySelectorAll(found)].map(a => a.getAttribute("href"))
  ));
})"""
QUESTIONS = {
    "must v look like y or like x": CHAPTER + "30_shapes",
    "only need the gradient of one entry of a vector": (
        "answers/one-output.html#one-entry-of-y"
    ),
    "what is a cotangent": "glossary.html#term-cotangent",
    "should v be a row or a column": "answers/shape-of-v.html#v-looks-like-y",
    "is summing all logits of a batch legitimate": (
        "answers/many-points.html#do-samples-mix"
    ),
    "hessian vector product": "answers/hessian-products",
    "per-sample gradients": "auto_examples/04_programs/20_per_sample",
    "gradient penalty": "auto_examples/04_programs/60_gradient_penalty",
    "pullback.mixing": "api/finding.html#pullback.mixing",
}

SCRIPTS = ("finding", "recognition", "ranking", "search")
#: The label of the entry that answers each question.
PASTED = {
    "I put the norm of the Jacobian into my loss: J = torch.autograd.functional.jacobian("
    "net, x); J.norm().backward() stops with 'element 0 of tensors does not require grad'. "
    "What do I change?": "jacobian-penalty-is-constant",
    "x is complex and y = 2*x**2: y.backward(torch.ones_like(y)) hands back the conjugate "
    "of 4*x. Which of the two is right?": "complex-derivative-is-conjugated",
    "The GAN code I read calls netD.zero_grad(). Are optimizerD.zero_grad() and "
    "optimizerG.zero_grad() the same?": "gan-zero-grad",
    "The inner step of MAML runs out of GPU memory with create_graph=True. May I pass "
    "retain_graph=True to autograd.grad(inner_loss, w) in its place?": "maml-retain-graph",
    "t = torch.tensor([1.0, 2.0, 3.2], requires_grad=True); t = torch.reshape(t, (3, 1)); "
    "then backward, and t.grad is None although requires_grad=True was set. Why?": (
        "none-after-cuda"
    ),
    "I was told that y = x * 2; y.add_(1); y.sum().backward() raises the in-place error. "
    "Here it runs, and the gradient is 2. Which is it?": "in-place-runs",
    "Is p.register_hook(lambda g: g.clamp(-1, 1)) on a parameter the same thing as one "
    "clamp of p.grad before optimizer.step(), when I accumulate over several backward "
    "calls?": "hook-or-final-clamp",
    "To get the diagonal of the Hessian I take the gradient with create_graph=True, and "
    "then autograd.grad(grad, x, torch.ones_like(grad)). Do I get the diagonal?": (
        "diagonal-of-the-hessian"
    ),
    "y = (3 + 4j) * w has a complex output and w is a real weight. How do I get both "
    "parts of dy/dw, when y.backward(...) leaves a real w.grad?": (
        "complex-output-of-a-real-input"
    ),
    "a = tensor(100.0, requires_grad=True); b = torch.where(a <= 0, torch.exp(a), 1 + a); "
    "b.backward(): b is 101 and a.grad is nan, though the exp branch is not selected.": (
        "zero-times-infinity"
    ),
    "x = [3, 1, 3]: is the gradient of x.max(), of x.max(dim=0).values, of x.amax(0) the "
    "same when the maximum is there twice?": "max-ties",
    "To save memory I write h = cell(x[t], h.detach()) at every step and take the loss of "
    "the last step. It trains, but learns nothing from more than one step back.": (
        "truncated-backpropagation"
    ),
}


@pytest.fixture(scope="module")
def search(browser, address):
    """Return what asks the search page, once it has loaded its index."""
    page = browser.new_page(viewport=DESKTOP)
    page.goto(address + "search.html?q=jacobian")
    page.wait_for_selector(FOUND)
    yield lambda query: page.evaluate(ASK, [query, FOUND])
    page.close()


@needs_site
@pytest.mark.parametrize("question", QUESTIONS)
def test_question_in_plain_words_finds_its_page(search, question):
    """Among the first three answers."""
    links = search(question)[:3]
    assert any(link.startswith(QUESTIONS[question]) for link in links), links


@needs_site
def test_question_pasted_whole_finds_its_page(search):
    """A paragraph with code in it: among the first three answers."""
    pages = {entry.label: f"answers/{entry.page.stem}.html" for entry in ENTRIES}
    places = {question: f"{pages[label]}#{label}" for question, label in PASTED.items()}
    asked = {question: search(question) for question in PASTED}
    missed = {
        question: links[:3]
        for question, links in asked.items()
        if not any(link.startswith(places[question]) for link in links[:3])
    }
    assert missed == {}


def sent(names):
    """Return the bytes of some files of the site, as a static host sends them."""
    return sum(len(gzip.compress((SITE / name).read_bytes())) for name in names)


@needs_site
@pytest.mark.parametrize(
    ("query", "most"),
    [
        ("why is my gradient twice as large", 320_000),
        ("Jacobian of a batch", 320_000),
        ("RuntimeError: Mismatch in shape: grad_output[0] has a shape of [2]", 100_000),
    ],
)
def test_the_first_answer_is_light(browser, address, query, most):
    """What is loaded until it is there as a card, the search page and its styles included.

    Of a message that is known, this is before the index, which the rest takes, has come.
    """
    page = browser.new_page(viewport=DESKTOP)
    if most == 100_000:
        page.route("**/searchindex.js", lambda route: route.abort())
    loaded = set()
    page.on("requestfinished", lambda request: loaded.add(urlsplit(request.url).path))
    page.goto(f"{address}search.html?q={quote(query)}")
    page.wait_for_selector("#search-results .card .answer")
    page.wait_for_load_state("networkidle")
    names = {path.strip("/") for path in loaded}
    assert {"searchmessages.js", "search.html"} < names
    assert ("searchindex.js" in names) == (most > 100_000)
    assert sent(names) <= most
    page.close()


def test_a_heading_of_many_pages_counts_for_the_page():
    """It says nothing of what stands under it."""

    def entry(page, title, text):
        words = f"said of {page}"
        return {"url": "", "page": page, "title": title, "text": text, "words": words}

    pages = [f"Page {number}" for number in range(search_index.EVERYWHERE)]
    found = [
        record
        for page in pages
        for record in (
            entry("", page, "First."),
            entry(page, "What goes wrong", "Much."),
            entry(page, f"Why {page}", "So."),
        )
    ]
    kept = search_index.gathered(found)
    assert [r["title"] for r in kept[:2]] == ["Page 0", "Why Page 0"]
    assert len(kept) == 2 * len(pages)
    assert {r["text"] for r in kept if not r["page"]} == {"First. Much."}
    assert kept[0]["words"] == "said of  said of Page 0"


@needs_site
def test_messages_that_people_paste_lead_to_their_pages(search):
    """Some by lot, of which ``test_ranking`` asks the same scripts for all."""
    known = pasted_messages()
    for message in one_in(20, known):
        first, *_ = search(" ".join(message.split()))
        assert first == f"errors/{known[message]}.html", message


@needs_site
def test_search_works_by_address_keyboard_and_offline(browser, address):
    page = browser.new_page(viewport=DESKTOP)
    page.goto(f"{address}index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("one-hot vector")
    page.keyboard.press("Enter")
    page.wait_for_selector(FOUND)
    assert urlsplit(page.url).query == "q=one-hot+vector"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_url("**/30_one_component.html")
    page.goto(f"{SITE.as_uri()}/search.html?q={quote('cotangent')}")
    page.wait_for_selector(FOUND)
    page.close()


@needs_site
def test_a_pasted_traceback_gets_a_card_with_the_shapes_in_it(browser, address):
    page = browser.new_page(viewport=PHONE, color_scheme="dark", permissions=CLIPBOARD)
    message = (
        'Traceback (most recent call last): File "a.py", line 3, in f y.backward(v) '
        "RuntimeError: Mismatch in shape: grad_output[0] has a shape of torch.Size([16]) "
        "and output[0] has a shape of torch.Size([16, 1])."
    )
    page.goto(f"{address}search.html?q={quote(message)}")
    card = page.locator("#search-results li").first
    card.locator(".answer").wait_for()
    assert card.locator(".kind").inner_text() == "This is your error"
    assert card.locator("b").all_inner_texts() == ["(16,)", "(16, 1)"]
    first, *_, why = card.locator(".answer p").all_inner_texts()
    assert first.startswith("Your v has shape (16,)")  # what to do comes first
    assert why.startswith("The tensor that you passed as gradient")  # and the cause last
    page.wait_for_selector(f"{FOUND} >> nth=1")  # the list, under the card
    assert page.locator(".card").count() == 1
    card.get_by_role("button", name="Copy this code").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "loss.backward(torch.ones_like(loss))\n" in copied
    # a value is text, whatever it holds
    page.evaluate("document.querySelector('.card').classList.add('earlier')")
    message = "Input type (<img src=x>) and weight type (b) should be the same"
    page.fill("#search-words", message)
    page.wait_for_selector(".card:not(.earlier) .answer")
    assert "<img src=x>" in card.inner_text()
    assert page.locator("#search-results img").count() == 0
    assert_accessible(page)
    page.close()


@needs_site
@pytest.mark.parametrize(
    ("message", "anchor", "values"),
    [
        (
            "Mismatch in shape: grad_output[0] has a shape of torch.Size([16]) "
            "and output[0] has a shape of torch.Size([16, 1]).",
            "mismatch-in-shape",
            ["(16,)", "(16, 1)"],
        ),
        (
            "one of the variables needed for gradient computation has been modified by an "
            "inplace operation: [torch.FloatTensor [64, 10]], which is output 0 of "
            "ReluBackward0, is at version 3; expected version 2 instead.",
            "modified-by-an-inplace-operation",
            ["(64, 10)", "ReluBackward0", "2", "3"],
        ),
        (
            "RuntimeError: one of the variables needed for gradient computation has been "
            "modified by an inplace operation",
            "modified-by-an-inplace-operation",
            None,
        ),
        (
            "AttributeError: 'MSELoss' object has no attribute 'backward'",
            "no-attribute-backward",
            ["MSELoss"],
        ),
    ],
)
def test_the_page_of_a_pasted_message_has_its_shapes_in_the_fix(
    browser, address, message, anchor, values
):
    """Whoever opens it from the search; nobody else, and not where it carries none."""
    page = browser.new_page(viewport=PHONE)
    page.goto(f"{address}errors/{anchor}.html", wait_until="networkidle")
    told = page.locator("#do-this").inner_text()
    assert page.locator(".yours").count() == 0
    page.goto(f"{address}search.html?q={quote(message)}")
    page.locator("#search-results .card .answer").wait_for()
    page.locator(f"#search-results a[href='errors/{anchor}.html']").first.click()
    page.wait_for_url(f"**/errors/{anchor}.html")
    page.wait_for_load_state("networkidle")
    if values:
        page.locator(".yours").wait_for()
        assert page.locator("#do-this b").all_inner_texts() == values
        filled = page.locator("#do-this").inner_text().splitlines()
        assert len(filled) >= len(told.splitlines())  # all the rest is there
    else:
        assert page.locator("#do-this").inner_text() == told
    page.close()


@needs_site
def test_the_first_result_shows_the_answer_and_its_code(browser, address):
    page = browser.new_page(viewport=PHONE, color_scheme="dark", permissions=CLIPBOARD)
    page.goto(f"{address}search.html?q={quote('Why did my gradient double?')}")
    card = page.locator("#search-results li.card")
    card.wait_for()
    link = card.locator("a").first
    url = page.evaluate("a => a.href", link.element_handle())
    prose = card.locator(".answer p").first.inner_text()
    assert card.locator(".answer pre").count() == 1
    card.get_by_role("button", name="Copy this code").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "backward" in copied
    assert "\xa0" not in copied
    assert_accessible(page)
    page.get_by_role("button", name="More answers").click()
    assert page.locator(FOUND).count() == 20
    page.goto(url)
    assert prose in page.locator("article").inner_text()
    page.close()


@needs_site
@pytest.mark.parametrize(
    ("query", "shown", "hidden"),
    [
        # the first code of the entry fails on purpose, the next works
        ("None or zeros: what is the difference?", ".grad", "except"),
        # the page begins with a story; the section that is asked for shows the call
        ("what a loss sends back", "mse_loss", "house"),
        # the page of a message begins with the code that goes wrong
        (
            "small number format and limit the step signal together learns almost nothing",
            "unscale_",
            "assert",
        ),
    ],
)
def test_the_card_shows_what_answers(browser, address, query, shown, hidden):
    page = browser.new_page(viewport=PHONE)
    page.goto(f"{address}search.html?q={quote(query)}")
    code = page.locator("#search-results li.card .answer pre").first
    code.wait_for()
    assert shown in code.inner_text()
    assert hidden not in code.inner_text()
    page.close()


@needs_site
def test_the_field_of_a_page_answers_while_one_types(browser, address):
    """By keyboard, as a combobox; nothing is loaded for it before the field is used."""
    page = browser.new_page(viewport=DESKTOP)
    loaded = set()
    page.on("request", lambda request: loaded.add(urlsplit(request.url).path.strip("/")))
    page.goto(f"{address}{CHAPTER}10_why_a_vector.html", wait_until="networkidle")
    assert "searchindex.js" not in loaded
    field = page.get_by_label("A question, or a whole error message")
    field.focus()
    options = page.get_by_role("option")
    page.keyboard.type("my loss is a vec", delay=10)
    # Where the machine is slow, the list has answered "my" before.
    page.locator("#suggestions[data-query='my loss is a vec']").wait_for()
    assert "searchindex.js" in loaded
    assert field.get_attribute("aria-expanded") == "true"
    texts = options.all_inner_texts()
    assert any(text.startswith("My loss is a vector") for text in texts), texts
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    chosen = page.get_by_role("option", selected=True)
    assert chosen.get_attribute("id") == field.get_attribute("aria-activedescendant")
    assert chosen.inner_text() == texts[0]
    assert_accessible(page)
    page.keyboard.press("Escape")
    assert field.get_attribute("aria-expanded") == "false"
    page.keyboard.type("t")
    options.first.wait_for()
    page.keyboard.press("ArrowUp")  # from the field to the last one
    where = page.get_by_role("option", selected=True).get_attribute("data-url")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{where.removeprefix('../../')}")
    page.go_back()
    field.fill("one-hot")
    options.first.wait_for()
    page.keyboard.press("Enter")  # none is chosen: the search page
    page.wait_for_url("**/search.html?q=one-hot")
    page.close()


def assert_accessible(page):
    """Assert that axe-core objects to nothing."""
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Build a site of a few pages; return the address of its search page."""
    folder = tmp_path_factory.mktemp("small")
    pages = {
        "index": "Home\n====\n\n.. toctree::\n   :glob:\n\n   errors/*\n   answers/*\n"
        "   mended\n   mismatch\n   widgets\n",
        "errors/before": "Division by zero\n================\n\nNever divide by 0.\n",
        "errors/shape": "Mismatch in shape\n=================\n\nSay v of y's shape.\n",
        "answers/sums": "Sums\n====\n\nTwice as large\n--------------\n\n.. asked::\n\n   "
        "- Why is my widget doubled?\n   - Two widgets\n\n.. words: surplus\n   gizmos\n"
        "\nThey add up.\n",
        "mended": ":asked: wobbly gizmo; two more\n\nMended\n======\n\nIt is.\n",
        "widgets": "Widgets\n=======\n\nMy doubled widget, again: widget.\n\n"
        ".. asked: gadget; small\n   contraption\n.. words: thingamajig\n",
        "mismatch": "Mismatch in shape: grad_output and output\n"
        "=========================================\n\ntorch.Size([7, 2]) and more.\n",
    }
    for name in ("answers", "errors"):
        (folder / name).mkdir()
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(text)
    docs = ROOT / "docs"
    settings = {
        "html_theme": "furo",
        "html_js_files": ["pullback.js"],
        "html_static_path": [str(docs / "_static")],
        "templates_path": [str(docs / "templates")],
        "search_areas": {"message": ["errors/"], "answer": ["answers/"]},
        "search_messages": {
            "expressions": EXPRESSIONS,
            "pages": {
                "errors/before": {
                    "line": r"/ \w\.grad",
                    "messages": ["division by zero"],
                },
                "errors/shape": {
                    "line": "",
                    "messages": [r"Mismatch in shape: (?P<which>\w+)\[\d+\]"],
                    "asked": ["lopsided cotangent"],
                    "lead": "Pass ones.",
                    "words": "crooked askew",
                },
            },
        },
    }
    (folder / "conf.py").write_text(conf("also_asked", "search_index", **settings))
    built = run_module("sphinx", "-q", str(folder), str(folder / "html"), folder=folder)
    assert built.returncode == 0, built.stderr
    return (folder / "html" / "search.html").as_uri()


@pytest.fixture
def asked(browser, small):
    """Return the search page of the small site."""
    page = browser.new_page()
    page.goto(small)
    yield page
    page.close()


#: Whether the search says of a query that no page is about it.
NONE = "document.querySelector('#search-summary').textContent.startsWith('No page')"


def test_a_pasted_message_leads_to_its_page(asked):
    """It is broken over lines by a terminal, with another error before it."""
    message = (
        "Traceback (most recent call last):\n  ...\nZeroDivisionError: division by zero\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n  ...\nRuntimeError: Mismatch in shape: "
        "grad_output[0] has a shape of\ntorch.Size([7, 2]) and output[0] has a shape of []"
    )
    asked.evaluate(
        """text => {
          const clipboardData = new DataTransfer();
          clipboardData.setData("text", text);
          const paste = new ClipboardEvent("paste", { clipboardData, cancelable: true });
          document.getElementById("search-words").dispatchEvent(paste);
        }""",
        message,
    )
    asked.wait_for_selector(FOUND)
    assert asked.locator(FOUND).first.get_attribute("href") == "errors/shape.html"
    summary = asked.locator("#search-summary")
    assert summary.text_content().endswith("the best first")


def test_a_message_that_no_page_is_about_is_said_to_be_one(asked):
    """What is shown below that are the pages nearest to it."""
    message = "UserWarning: division by zero in y RuntimeError: y has no shape to divide"
    asked.fill("#search-words", message)
    asked.wait_for_function(NONE)
    assert asked.locator(FOUND).count() > 0


def test_words_that_any_code_may_raise_count_by_the_line_that_raised_them(asked):
    """Where it is of the page's kind; after one that is not, and before another."""
    for line, unknown in (("step / 0", "true"), ("step / w.grad", "false")) * 2:
        frame = f'File "a.py", line 3, in step {line} ZeroDivisionError: division by zero'
        asked.fill("#search-words", frame)
        asked.wait_for_function(f"{NONE} === {unknown}")


def test_a_wording_counts_as_a_title(asked):
    asked.fill("#search-words", "why is my widget doubled")
    asked.wait_for_function(
        f"document.querySelector('{FOUND}')?.hash === '#twice-as-large'"
    )
    first = asked.locator("#search-results li").first
    assert first.locator("a").text_content() == "Twice as large"
    asked.wait_for_function(
        "document.querySelector('#search-results .context')?.textContent === 'They add up.'"
    )


def test_a_message_among_the_answers_says_what_to_do(asked):
    """Not how its page begins, with the message that has just been typed."""
    asked.fill("#search-words", "lopsided cotangent")
    asked.wait_for_function(
        "document.querySelector('#search-results .context')?.textContent === 'Pass ones.'"
    )


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("lopsided", "shape"),  # a word that only `asked` has
        ("lopsdied", "shape"),  # mistyped
        ("wobbly gizmo", "mended"),  # which front matter names
        ("small contraption", "widgets"),  # and a comment
        ("thingamajig", "widgets"),  # words, of a page
        ("surplus gizmos", "sums"),  # of an answer
        ("crooked", "shape"),  # of a message
    ],
)
def test_what_a_page_does_not_say_itself_leads_there(asked, query, page):
    asked.fill("#search-words", query)
    asked.wait_for_function(
        f"document.querySelector('{FOUND}')?.pathname.endsWith('/{page}.html')"
    )
