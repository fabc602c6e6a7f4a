"""Functions in a page's code are linked, by what they were when the page ran."""

import importlib
import re
import sys
from textwrap import dedent
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from built import SITE, needs_site
from executed import EXAMPLES, ROOT
from sites import Site, conf, write

from call_recorder import CallRecorder

SCRIPT = """
import torch
from torch.autograd import Function, gradcheck as check, gradgradcheck

class Keep(Function):
    @staticmethod
    def forward(ctx, é):
        ctx.save_for_backward(é)
        return é.clone()

    @staticmethod
    def backward(ctx, é):
        return é.neg()

def total(é):
    return (é * 2).exp().sum()

x = torch.ones(2, dtype=torch.float64, requires_grad=True)
for each in [total, lambda t: Keep.apply(t).prod()]:
    y = (
        each(x)
        .square()
    ); "é"; y.backward(); x.grad.zero_().tolist().append(1)
x.detach().numpy().round()
model = [torch.nn.Linear(2, 1)]
steps = torch.optim.SGD(model[0].parameters(), lr=1.0)
[steps][0].step()
model[0].zero_grad()
gradgradcheck(total, x)
torch.norm(x)
torch.tensordot(x, x, dims=1)
list(map(torch.norm, [x]))
list(model[0].parameters())
layer = model[0]
list(layer.parameters())
z = x
z.sum()
z = "a b"
z.split()
"""
CALLED = {
    "ctx.save_for_backward": "torch.autograd.function.FunctionCtx.save_for_backward",
    "é.clone": "torch.Tensor.clone",
    "é.neg": "torch.Tensor.neg",
    "(é * 2).exp": "torch.Tensor.exp",
    "(é * 2).exp().sum": "torch.Tensor.sum",
    "Keep.apply": "torch.autograd.Function.apply",
    "Keep.apply(t).prod": "torch.Tensor.prod",
    "        .square": "torch.Tensor.square",
    "y.backward": "torch.Tensor.backward",
    "x.grad.zero_": "torch.Tensor.zero_",
    ".tolist": "torch.Tensor.tolist",
    ".append": "builtins.list.append",
    ".numpy": "torch.Tensor.numpy",
    ".numpy().round": "numpy.ndarray.round",
    "[steps][0].step": "torch.optim.Optimizer.step",
    "model[0].zero_grad": "torch.nn.Module.zero_grad",
    "torch.tensordot": "torch.tensordot",
    "gradgradcheck": "torch.autograd.gradcheck.gradgradcheck",
    "layer.parameters": "torch.nn.Module.parameters",  # which is not seen, as it yields
    "z.sum": "torch.Tensor.sum",
    "z.split": "builtins.str.split",
}
NOT_METHODS = {"torch.norm": "Tensor.norm"}  # what takes a tensor first is not its method
NOT_CALLED = ["list", "map", "torch.nn.Linear"]


def test_a_call_is_noted_by_what_was_called(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    before = sys.getprofile()
    recorder = CallRecorder(script)
    recorder.find_calls(SCRIPT)
    with recorder:
        exec(compile(SCRIPT, str(script), "exec"), names := {"__name__": "script"})
    recorder.note_variables(names)
    assert sys.getprofile() is before
    for written, name in CALLED.items():
        found = {
            end: names
            for end, names in recorder.notes.items()
            if SCRIPT[: int(end)].endswith(written) and name in names
        }
        assert len(found) == 1, written
    for end, names in recorder.notes.items():
        written = SCRIPT[: int(end)]
        assert SCRIPT[int(end)] == "("
        assert not any(written.endswith(f" {name}") for name in NOT_CALLED)
        for function, method in NOT_METHODS.items():
            assert not (written.endswith(function) and any(method in n for n in names))


PAGE = '''
    """
    Title
    =====
    """
    # %%
    # Words about a ``Box``::
    #
    #     Box().open()

    import json
    from tiny import Box, wrap

    def inside(box):
        return box.open()

    box = Box()
    print(inside(box), [Box()][0].open(), box.shut())
    json.loads("[]")

    # %%
    # More words.

    print(wrap([box])[0].open(), "open".upper())
    '''
FILES = {
    "src/tiny/__init__.py": """
        class Box:
            def open(self):
                return "opened"

            def shut(self):
                return "shut"

        def wrap(boxes):
            return boxes
        """,
    "examples/GALLERY_HEADER.rst": "Title\n=====",
    "examples/one/GALLERY_HEADER.rst": "Title\n=====",
    "examples/one/page.py": PAGE,
    "examples/one/none.py": '"""\nNone\n====\n"""\nprint(1)',
    "docs/index.rst": "Home\n====\n\n.. toctree::\n\n   auto_examples/index\n   api",
    "docs/api.rst": """
        API
        ===

        .. py:function:: tiny.wrap
        """,
    "docs/boxes.inv": """
        # Sphinx inventory version 1
        # Project: Boxes
        # Version: 1
        tiny.Box class boxes.html
        tiny.Box.open method open.html
        json.loads function json.html
        """,
    "docs/conf.py": conf(
        "execution",
        "code_links",
        "myst_nb",
        "sphinx.ext.intersphinx",
        "sphinx_gallery.gen_gallery",
        intersphinx_mapping={"boxes": ("https://boxes.example/", "boxes.inv")},
    ),
}
BOX, OPEN, JSON = (f"https://boxes.example/{page}" for page in ("boxes", "open", "json"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("links"))
    write(site.folder, {name: dedent(text).strip() for name, text in FILES.items()})
    site.build()
    return site


def links(page, where):
    """Return (text, address) of the links in a part of a page."""
    return [(a.get_text(), a["href"].partition(".html")[0]) for a in page.select(where)]


def test_what_was_called_is_linked_and_what_is_a_variable_is_not(site):
    page = BeautifulSoup(site.page("examples/one/page.py"), "html.parser")
    found = links(page, ".highlight-Python a")
    assert found == [
        ("Box", BOX),
        ("wrap", "../../api"),
        ("box.open", OPEN),
        ("Box", BOX),
        ("Box", BOX),
        ("open", OPEN),
        ("json.loads", JSON),
        ("wrap", "../../api"),
        ("open", OPEN),
    ]


def test_functions_are_listed_once_at_the_end(site):
    page = BeautifulSoup(site.page("examples/one/page.py"), "html.parser")
    found = links(page, ".functions-used a")
    assert found == [
        ("json.loads", JSON),
        ("tiny.Box", BOX),
        ("tiny.wrap", "../../api"),
        ("Box.open", OPEN),
    ]
    (block,) = page.select(".functions-used")
    assert block.find_next_sibling("div")["class"][0] == "sphx-glr-footer"
    assert "Functions used" not in page.find("div", class_="sphinxsidebar").get_text()
    without = BeautifulSoup(site.page("examples/one/none.py"), "html.parser")
    assert not without.select(".functions-used")


def test_a_name_that_means_something_else_in_the_end_keeps_its_link(site):
    site.edit("examples/one/page.py", 'json.loads("[]")', "")
    site.edit("examples/one/page.py", '"open".upper())', '"open".upper())\nbox = 1')
    site.build()
    page = BeautifulSoup(site.page("examples/one/page.py"), "html.parser")
    assert ("box.open", OPEN) in links(page, ".highlight-Python a")
    assert "json.loads" not in dict(links(page, ".functions-used a"))


def test_a_changed_inventory_changes_the_links_and_runs_nothing(site):
    page = site.page("examples/one/page.py")
    assert OPEN in page
    site.edit("docs/boxes.inv", "open.html", "opened.html")
    assert site.build() == set()
    changed = site.page("examples/one/page.py")
    assert changed == page.replace(f"{OPEN}.html", "https://boxes.example/opened.html")


def resolved(name):
    """Return what a dotted name stands for, importing as much as it takes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            value = getattr(value, part)
        return value
    raise ImportError(name)


@pytest.mark.parametrize("library", ["torch", "numpy", "matplotlib"])
def test_an_inventory_has_no_name_that_is_not_in_the_library(library):
    file = ROOT / "docs" / "_inventories" / f"{library}.inv"
    rows = [line.split() for line in file.read_text().splitlines()[3:]]
    assert len({name for name, *_ in rows}) == len(rows) > 20
    for name, kind, address in rows:
        value = resolved(name)
        assert isinstance(value, type) == (kind == "class"), name
        page = address.rpartition("/")[2].removesuffix(".html")
        if "generated/" in address or "_as_gen/" in address:
            assert name == page or name.startswith(f"{page}."), name


GALLERY = sorted((SITE / "auto_examples").glob("*/[0-9]*.html"))
ORDER = ["pullback", "torch", "numpy"]
# What its library's documentation has no entry for.
UNDOCUMENTED = {
    "torch.amp.GradScaler",  # only torch.cuda.amp.GradScaler and torch.cpu.amp.GradScaler
    "np.maximum.accumulate",  # a method of every ufunc
    "torch.backends.cudnn.flags",
    "torch.export.Dim",  # on pages that move from release to release
    "torch.export.export",
    "torch.finfo",  # on a page of several, whose anchors are not known here
    "torch.is_autocast_enabled",
    "torch.log_softmax",  # only in torch.nn.functional
    "torch.relu",  # only in torch.nn.functional
}
STRINGS = {"s1", "s2", "sd"}
CODE = re.compile(
    r'<div class="([^"]*)"><div class="highlight">(<pre>.*?</pre>)', re.DOTALL
)
FUNCTION = re.compile(r"(?<!@)\b((?:torch|np|pullback)\.[\w.]+)\(")


def without_names(code):
    """Return the text of code, with a stroke in the place of each link and string."""
    if code.tag == "a" or code.get("class") in STRINGS:
        return "_"
    parts = (without_names(part) + (part.tail or "") for part in code)
    return (code.text or "") + "".join(parts)


@needs_site
def test_links_in_code_are_all_that_is_documented_and_stand_in_the_list():
    """They are no stops for the keyboard; those in the list are.

    Most tags of a page are in its code, which is well-formed, and quickly read as XML.
    """
    assert len(GALLERY) == len(EXAMPLES)
    missing = set()
    for path in GALLERY:
        page = path.read_text(encoding="utf-8")
        blocks = [(kind, ElementTree.fromstring(code)) for kind, code in CODE.findall(page)]
        assert len(blocks) == page.count('class="highlight"') > 0, path
        in_code = [a for _, code in blocks for a in code.iter("a")]
        end = page[page.index('<div class="functions-used') : page.rindex("</article>")]
        listed = BeautifulSoup(end, "html.parser").select(".functions-used li a")
        assert in_code, path
        assert {a.get("href") for a in in_code} == {a["href"] for a in listed}, path
        assert all(a.get("tabindex") == "-1" for a in in_code), path
        assert not any(a.has_attr("tabindex") for a in listed), path
        names = [a["title"].partition(".")[0] for a in listed]
        places = [ORDER.index(n) if n in ORDER else len(ORDER) for n in names]
        assert places == sorted(places), path
        assert len({a["title"] for a in listed}) == len(listed), path
        for kind, code in blocks:
            if "highlight-Python" in kind:
                missing |= set(FUNCTION.findall(without_names(code)))
    assert missing == UNDOCUMENTED
