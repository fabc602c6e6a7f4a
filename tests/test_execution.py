"""What is executed again, and what a build leaves behind, seen on a small site.

It has three gallery pages and a notebook, and shows a package with two functions.
"""

import re

import pytest
from sites import Site, build_apart, conf, differing, write

from pages import Store, find, is_chosen, sources

A, B = "examples/one/uses_a.py", "examples/one/uses_b.py"
NONE, NOTEBOOK = "examples/two/uses_none.py", "docs/notebook.md"
USE_THE_PACKAGE = {A, B, NOTEBOOK}
ALL = {*USE_THE_PACKAGE, NONE}
HEADER = "Title\n=====\n"
FILES = {
    "src/tiny/__init__.py": "from tiny._a import a\nfrom tiny._b import b",
    "src/tiny/_a.py": "def a():\n    return 'number one'",
    "src/tiny/_b.py": """
        from pathlib import Path
        def b():
            return Path(__file__).with_name("words").joinpath("two.txt").read_text()
        """,
    "src/tiny/words/two.txt": "number two",
    "src/scipy-99.dist-info/METADATA": "Name: scipy\nVersion: 99",
    "examples/GALLERY_HEADER.rst": HEADER,
    "examples/one/GALLERY_HEADER.rst": HEADER,
    "examples/one/uses_a.py": """
        '''
        Uses a
        ======
        '''
        import tiny
        print("uses", tiny.a())
        """,
    "examples/one/uses_b.py": """
        '''
        Uses b
        ======
        '''
        import matplotlib.pyplot as plt
        import tiny
        plt.rcParams["lines.linewidth"] *= 2
        plt.plot([0, 1])
        plt.title(tiny.b())
        print("width", plt.rcParams["lines.linewidth"])
        """,
    "examples/two/GALLERY_HEADER.rst": HEADER,
    "examples/two/uses_none.py": """
        '''
        Uses none
        =========
        '''
        import os
        os.environ["COUNT"] = str(int(os.environ.get("COUNT", 0)) + 1)
        print("count", os.environ["COUNT"])
        """,
    "docs/notebook.md": """
        ---
        file_format: mystnb
        kernelspec: {name: python3, display_name: Python 3, language: python}
        ---
        # Notebook
        ```{code-cell}
        import os, tiny
        from pathlib import Path
        import matplotlib.pyplot as plt
        os.environ["COUNT"] = str(int(os.environ.get("COUNT", 0)) + 1)
        plt.rcParams["lines.linewidth"] *= 2
        plt.plot([0, 1])
        print("count", os.environ["COUNT"], tiny.a(), Path("figures.txt").read_text())
        ```
        """,
    "docs/figures.txt": "recorded",
    "docs/index.rst": """
        Home
        ====
        .. toctree::

           auto_examples/index
           notebook
        """,
    "docs/conf.py": conf(
        "execution",
        "myst_nb",
        "reproducible",
        "sphinx_gallery.gen_gallery",
        exclude_patterns=["_build"],
        nb_execution_mode="cache",
        nb_execution_timeout=20,
    ),
}


PLOTS = re.compile(r"^.*\bplt\b.*\n", re.M)


def small(folder, figures=True):
    """Write the site; to import what draws figures takes longer than all else."""
    for name, text in FILES.items():
        text = text if figures else PLOTS.sub("", text.replace("plt.title", "print"))
        write(folder, {name: text})
    return Site(folder)


# -- What is stale ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The sources of the site, executed once; a test works with what others edited."""
    folder = tmp_path_factory.mktemp("project")
    site = small(folder, figures=False)
    assert ran(site) == ALL
    return site


def ran(site):
    """Execute what is stale; return the names of the pages."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(site.folder / "src")  # where this scipy is
        store = Store(site.folder)
        results = list(store.execute(store.stale(find(site.folder)), 1))
    assert not any(result["failure"] for _, result in results), results
    return {page.name for page, _ in results}


def test_nothing_changed_nothing_is_stale(project):
    assert ran(project) == set()


def test_an_edit_in_the_package_runs_the_pages_that_use_it(project):
    project.edit("src/tiny/_a.py", "number one", "number three")
    assert ran(project) == USE_THE_PACKAGE


def test_an_edit_in_a_folder_of_the_package_runs_the_pages_that_read_it(project):
    project.edit("src/tiny/words/two.txt", "number two", "number four")
    assert ran(project) == {B}
    write(project.folder, {"src/tiny/words/three.txt": "number three"})
    assert ran(project) == {B}


def test_a_page_that_starts_a_process_may_use_all_of_the_package(project):
    start = "import subprocess; subprocess.run(['true'])"
    project.edit("examples/one/uses_a.py", "import tiny", f"import tiny; {start}")
    assert ran(project) == {A}
    project.edit("src/tiny/words/two.txt", "number", "figure")
    assert ran(project) == {A, B}


def test_an_edit_of_code_runs_that_page_and_one_of_prose_none(project):
    project.edit("examples/one/uses_a.py", "uses", "shows")
    assert ran(project) == {A}
    project.edit("docs/notebook.md", "# Notebook", "# Prose")
    assert ran(project) == set()


@pytest.mark.parametrize("name", ["figures.txt", "other figures"])
def test_a_file_that_a_page_names_runs_it(project, name):
    project.edit("docs/notebook.md", "figures.txt", name)
    write(project.folder, {f"docs/{name}": "recorded"})
    ran(project)
    project.edit(f"docs/{name}", "recorded", "recorded anew")
    assert ran(project) == {NOTEBOOK}
    project.edit("docs/notebook.md", name, "figures.txt")


def test_another_version_runs_all(project):
    project.edit("src/scipy-99.dist-info/METADATA", "Version: 99", "Version: 100")
    assert ran(project) == ALL


@pytest.mark.parametrize(
    ("part", "chosen"),
    [
        ("all", True),
        ("", False),
        ("none", True),
        ("docs/answers/none.md", True),
        ("b", False),
    ],
)
def test_a_page_is_chosen_by_a_part_of_its_name_and_none_by_nothing(part, chosen):
    assert is_chosen("docs/answers/none.md", part) is chosen


# -- What is built ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A site that has been built once; a test works with what others edited."""
    site = small(tmp_path_factory.mktemp("built"))
    assert site.build() == ALL
    return site


def test_nothing_changed_nothing_runs(built):
    before = built.published()
    assert built.build() == set()
    assert built.published() == before


def test_what_ran_again_is_shown(built):
    picture = built.published()["_images/sphx_glr_uses_b_001.png"]
    built.edit("src/tiny/_a.py", "number one", "number three")
    built.edit("src/tiny/words/two.txt", "number two", "number four")
    built.edit("examples/one/uses_a.py", "uses", "shows")
    built.edit("docs/notebook.md", "# Notebook", "# Prose")
    built.edit("docs/figures.txt", "recorded", "recorded anew")
    assert built.build() == USE_THE_PACKAGE
    assert "shows number three" in built.page(A)
    assert "number three recorded anew" in built.page(NOTEBOOK)
    assert "<h1>Prose" in built.page(NOTEBOOK)
    assert built.published()["_images/sphx_glr_uses_b_001.png"] != picture


def test_prose_is_shown_without_a_run(built):
    built.edit("docs/notebook.md", "# Prose", "# Words")
    built.edit("src/tiny/words/two.txt", "number four", "number five")
    assert built.build() == {B}
    assert "<h1>Words" in built.page(NOTEBOOK)


def test_a_page_left_out_shows_no_output_rather_than_an_old_one(built):
    built.edit("src/tiny/_a.py", "number", "figure")
    record = built.html.with_name("built.txt")
    assert built.build("-D", "execution_pages=") == set()
    assert record.read_text() == ""
    assert "number" not in built.page(A)
    assert built.build("-D", "execution_pages=uses_a") == {A}
    assert record.read_text() == ""
    assert "figure" in built.page(A)
    assert "figure" not in built.page(B)
    assert (
        "count"
        not in built.page(NOTEBOOK).partition("sphinxsidebar")[0].split("</pre>")[-1]
    )
    assert "number" not in built.page(NOTEBOOK)
    assert built.build() == {B, NOTEBOOK}
    assert record.read_text() == sources(built.folder)
    assert "figure" in built.page(NOTEBOOK)


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """Two copies of the site, built as differently as can be."""
    sites = [small(tmp_path_factory.mktemp(name)) for name in ("first", "second_folder")]
    return build_apart(*sites, ALL)


def test_two_builds_are_the_same_to_the_byte(twice):
    assert differing(*twice) == []
    assert any(name.endswith(".zip") for name in twice[0].published())


def test_no_page_sees_what_another_left(twice):
    assert twice[0].order == twice[1].order[::-1]
    for site in twice:
        assert "count 1" in site.page(NONE)
        assert "count 1 number one" in site.page(NOTEBOOK)
        assert "width 3.0" in site.page(B)


def test_what_is_renamed_or_deleted_leaves_nothing(twice, tmp_path):
    site, fresh = twice[0], small(tmp_path)
    for at in site, fresh:
        at.edit("docs/index.rst", "   notebook\n", "")
        (at.folder / "docs/notebook.md").unlink()
        (at.folder / "examples/one/uses_b.py").rename(at.folder / "examples/one/renamed.py")
        for file in (at.folder / "examples/two").iterdir():
            file.unlink()
        (at.folder / "examples/two").rmdir()
        at.build(SOURCE_DATE_EPOCH="1700000000")
    after, clean = site.published(), fresh.published()
    empty = rb'"\w+":\[\],?'  # Sphinx's search index keeps a word that no page has any more
    after["searchindex.js"] = re.sub(empty, b"", after["searchindex.js"])
    assert after.keys() == clean.keys()
    assert [name for name in after if after[name] != clean[name]] == []


def test_a_page_that_does_not_run_as_it_should_stops_the_build(tmp_path):
    site = small(tmp_path)
    faults = {
        "examples/one/uses_a.py": (
            "import tiny",
            "import os; os.write(2, b'said in C') > 0",
        ),
        "examples/one/uses_b.py": (
            "import tiny",
            "import warnings; warnings.warn('beware')",
        ),
        "examples/two/uses_none.py": ("import os", "import os; os._exit(3)"),
        "docs/notebook.md": ("import os, tiny", "1 / 0"),
    }
    for name, (line, fault) in faults.items():
        site.edit(name, line, f"{fault}\n{line}")
    site.build(fails=True)
    for reason in (
        "said in C",
        "UserWarning: beware",
        "crashed",
        "ZeroDivisionError",
        *faults,
    ):
        assert reason in site.said
    for name, (line, fault) in faults.items():
        site.edit(name, f"{fault}\n{line}", line)
    assert site.build() == ALL
