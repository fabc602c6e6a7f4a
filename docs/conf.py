"""Configuration of the documentation build."""

import gc
import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

here = Path(__file__).parent
sys.path.insert(0, str(here / "_ext"))
gc.disable()  # it walks all pages again and again: a quarter of a build without this

# -- Project ---------------------------------------------------------------------------

project = "Pullback"
author = "The Pullback authors"
copyright = "2026, the Pullback authors"
release = version = installed("pullback")

# -- What builds the pages -------------------------------------------------------------

# By name; where the order matters, a priority says so. Before the pages are read, they run
# (100) and the messages are written from what they showed (110); sphinx-gallery writes its
# pages (500), which are then gone over (800, 900). On a page the links in code are made
# right behind sphinx-gallery's (6), and whole blocks are rewritten when nothing else looks
# for them (880 to 950). The menu is put into a page (100) before its Markdown is written
# (800) and files are left out (900). When the build ends, lost pages are looked for (0),
# pictures follow the deletion of lost ones (600), and the theme's files come last (900).
extensions = [
    "execution",
    "also_asked",
    "asking",
    "book",
    "code_links",
    "discovery",
    "error_index",
    "folded",
    "gallery_cards",
    "leave_out",
    "lighter",
    "live_pictures",
    "markdown_pages",
    "mathml",
    "myst_nb",
    "navigation",
    "nothing_lost",
    "odd_inputs",
    "pictures",
    "provenance",
    "reproducible",
    "search_index",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosectionlabel",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "symptoms",
    "wheel",
]
exclude_patterns = [
    "_build",
    "auto_examples/**/*.ipynb",
    "**.ipynb_checkpoints",
    "upstream.md",
]
nitpicky = True
nitpick_ignore_regex = [
    # Annotations that have no page of their own.
    (
        "py:class",
        r"(Tensor|Mode|csr_array|collections\.abc\.Collection|LinearOperator|torch\._C\.Generator|ChunkSize|Keywords|Picture|ProcessGroup|torch\.nn\.modules\..*|Outcome|Route|PyTree|Array|Axes|Figure|matplotlib\..*|.*\._[a-z]+\..*)",
    ),
]
autosectionlabel_prefix_document = True
suppress_warnings = ["config.cache"]

# -- Example scripts (sphinx-gallery) --------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("pullback",),
    "backreferences_dir": "api/generated",
    "default_thumb_file": str(here / "_static" / "logo.svg"),
    "image_srcset": ["2x"],
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
}

# -- Executed Markdown pages (MyST-NB) -------------------------------------------------

nb_execution_mode = "cache"
nb_execution_timeout = 300  # for a script, too; the slowest, which compiles, takes 20
nb_render_markdown_format = "myst"
nb_mime_priority_overrides = [
    ("book", kind, place)
    for place, kind in enumerate(("text/html", "text/markdown", "image/png", "text/plain"))
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_disable_syntax = ["html_inline"]  # else <AddBackward0> is a tag, and not shown
myst_heading_anchors = 3

# -- API -------------------------------------------------------------------------------

autodoc_typehints = "signature"
napoleon_use_ivar = True
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True

# -- Links to other projects -----------------------------------------------------------

# Inventories are kept here so that a build needs no network; the links point at the
# real pages.
intersphinx_mapping = {
    name: (url, f"_inventories/{name}.inv")
    for name, url in {
        "matplotlib": "https://matplotlib.org/stable/",
        "numpy": "https://numpy.org/doc/stable/",
        "python": "https://docs.python.org/3/",
        "torch": "https://docs.pytorch.org/docs/stable/",
    }.items()
}

# -- HTML ------------------------------------------------------------------------------

html_theme = "furo"
# Where the site is served, and the repository, whose issues are how to reach the project.
# If the host does not say, pages name no address and offer no link to it.
site_url = os.environ.get("SITE_URL", "").rstrip("/")
html_baseurl = site_url and f"{site_url}/"
repository = os.environ.get("REPOSITORY_URL", "").removesuffix(".git")
social_picture = (
    "_static/vjp.png",
    "The Jacobian with rows 1 1 1 and 2 4 6, v = (4, -1) beside it, their product below",
)
# Learn as a book is offered where it has been built before, as `nox -s docs` does.
book = here / "_build" / "learn.epub"
html_extra_path = [str(book)] if book.exists() else []
html_context = {"book": book.name if book.exists() else ""}
html_title = "Pullback"
html_static_path = ["_static", "../src/pullback/live.js", "../src/pullback/steps.js"]
html_css_files = ["pullback.css", "few.css"]
html_js_files = ["pullback.js"]
templates_path = ["templates"]
# Pages that nobody tagged or searched for words need no script for it; pullback.css styles
# what these files would, and pullback.js does what is used of these scripts.
html_leave_out = [
    "basic.css",
    "doctools.js",
    "documentation_options.js",
    "furo-extensions.css",
    "mystnb.*.css",
    "sg-tags.js",
    "sg_gallery*.css",
    "sphinx_highlight.js",
]
html_only_on = {"few.css": ["api/*", "cheat_sheet", "search", "source_map"]}
# How the addresses begin in each area that ranking.js knows.
search_areas = {
    "message": ["errors/"],
    "fix": ["fix/"],
    "list": [
        "api/",
        "bibliography",
        "contract",
        "corrections",
        "errors.",
        "exercises",
        "index.",
        "measured",
        "play",
        "source_map",
        "version",
    ],
    "answer": ["answers/"],
    "term": ["glossary"],
    "example": ["auto_examples/"],
}
html_favicon = "_static/logo.svg"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_domain_indices = False
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo.svg",
}

# -- Learn as a book -------------------------------------------------------------------

epub_title = "Pullback: what do I pass to backward()?"
epub_basename = "learn"
epub_author = author
epub_uid = epub_identifier = "pullback-learn"  # Sphinx writes one here, the other there
epub_scheme = "name"
epub_show_urls = "no"
epub_tocscope = "includehidden"
epub_use_index = False


def setup(app):
    """Leave .ipynb to sphinx-gallery, whose notebooks are downloads and not sources."""
    app.registry.source_suffix.pop(".ipynb", None)
    # Python itself collects once more when it ends; of these objects it then walks none.
    app.connect("build-finished", lambda *_: gc.freeze(), priority=999)
