"""Where a page says that it comes from (docs/_ext/provenance.py)."""

import os
from types import SimpleNamespace

import pytest
from executed import ROOT

from pages import Page, Piece, Store
from provenance import source_of


@pytest.mark.parametrize(
    ("page", "name"),
    [
        (Page(ROOT, "examples/one/10_a.py"), "auto_examples/one/10_a"),
        (Page(ROOT, "docs/answers/nan.md"), "answers/nan"),
        (Piece(ROOT, "errors/scalar-outputs/fixed.py", ""), "errors/scalar-outputs"),
    ],
)
def test_a_page_is_known_by_what_shows_it(page, name):
    assert page.docname == name


@pytest.mark.parametrize(
    ("page", "source"),
    [
        ("about", "docs/about.md"),
        ("answers/nan", "docs/answers/nan.md"),
        ("errors", "docs/errors.md"),
        ("auto_examples/index", "examples/GALLERY_HEADER.rst"),
        ("auto_examples/02_jacobians/index", "examples/02_jacobians/GALLERY_HEADER.rst"),
        ("auto_examples/02_jacobians/10_chain", "examples/02_jacobians/10_chain.py"),
    ],
)
def test_the_source_of_a_page_is_what_one_would_edit(page, source):
    env = SimpleNamespace(doc2path=lambda name, base: f"{name}.md")
    app = SimpleNamespace(confdir=ROOT / "docs", env=env)
    assert source_of(app, page) == source
    assert (ROOT / source).is_file()


def test_the_source_of_an_error_page_is_its_entry():
    source = source_of(SimpleNamespace(confdir=ROOT / "docs"), "errors/singular-matrix")
    assert (ROOT / source).stem == "singular-matrix"
    assert source.startswith("src/pullback/messages/")


def test_the_day_is_that_of_the_run_or_of_the_sources(tmp_path, monkeypatch):
    """In UTC; where the date of the sources is set, no later than that."""
    (tmp_path / "src" / "tiny").mkdir(parents=True)
    (tmp_path / "src" / "tiny" / "__init__.py").touch()
    store, page = Store(tmp_path), Page(tmp_path, "docs/a.md")
    file = store.file(page)
    file.parent.mkdir(parents=True)
    file.touch()
    os.utime(file, (1_700_000_000, 1_700_000_000))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert store.day(page) == "2023-11-14"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    assert store.day(page) == "2020-09-13"
