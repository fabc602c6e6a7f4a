"""Configuration of the documentation build."""

import sys
import warnings
from importlib.metadata import version as installed
from pathlib import Path

import torch

here = Path(__file__).parent
sys.path.insert(0, str(here / "_ext"))

# -- Project ---------------------------------------------------------------------------

project = "Pullback"
author = "The Pullback authors"
copyright = "2026, the Pullback authors"
release = version = installed("pullback")

# -- What builds the pages -------------------------------------------------------------

extensions = [
    "error_index",
    "freshness",
    "mathml",
    "myst_nb",
    "odd_inputs",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosectionlabel",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "**.ipynb_checkpoints"]
nitpicky = True
nitpick_ignore_regex = [
    # Annotations that have no page of their own.
    (
        "py:class",
        r"(Tensor|torch\.nn\.modules\..*|Outcome|Route|PyTree|Array|Axes|Figure|matplotlib\..*|.*\._[a-z]+\..*)",
    ),
]
autosectionlabel_prefix_document = True  # questions.md links to headings
suppress_warnings = ["config.cache"]

# Examples run in this process; a pool of OpenMP threads would hang forked readers.
torch.set_num_threads(1)

# -- Example scripts (sphinx-gallery) --------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_", "__repr__"),
    "doc_module": ("pullback",),
    "reference_url": {"pullback": None},
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
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_render_markdown_format = "myst"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
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
html_title = "Pullback"
html_static_path = ["_static"]
html_css_files = ["pullback.css", "reference.css"]
html_favicon = "_static/logo.svg"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo.svg",
    "navigation_with_keys": True,
}
copybutton_exclude = ".linenos, .gp, .go"

warnings.filterwarnings("error", category=DeprecationWarning, module="__main__")


def setup(app):
    """Leave .ipynb to sphinx-gallery, whose notebooks are downloads and not sources."""
    app.registry.source_suffix.pop(".ipynb", None)
