"""Every name of sphinx-gallery and MyST-NB that their documentation does not promise.

The extensions take them from here; the comment at each says what it is for. Once a release
has dropped one, ``tests/test_doors.py`` says which, and what it was for.
"""

from __future__ import annotations

from typing import Any

from myst_nb.core.config import NbParserConfig  # of a page that is read as a notebook
from myst_nb.core.read import create_nb_reader  # reads it, for the cache of outputs
from myst_nb.sphinx_ext import (
    add_global_html_resources,  # writes its style sheet, which pages ask for before
)
from sphinx_gallery._doctree_links import (
    CodeLinksTransform,  # puts links into code, behind which ours are put
    code_links_block,  # the blocks of code in which it does
)
from sphinx_gallery.directives import (
    imgsgnode,  # a figure of a page, which gets a size
    visit_imgsg_html,  # writes it
)
from sphinx_gallery.gen_rst import (
    CODE_OUTPUT,  # how a page shows what a block printed
    HTML_HEADER,  # how it shows HTML
)
from sphinx_gallery.notebook import (
    add_code_cell,  # a cell for the notebook that is offered for download
    save_notebook,  # writes that
)
from sphinx_gallery.py_source_parser import (
    split_code_and_text_blocks,  # cuts a script into its blocks
)
from sphinx_gallery.utils import get_md5sum  # by which it knows a script again

__all__ = [
    "CODE_OUTPUT",
    "HTML_HEADER",
    "CodeLinksTransform",
    "NbParserConfig",
    "add_code_cell",
    "add_global_html_resources",
    "code_links_block",
    "create_nb_reader",
    "get_md5sum",
    "imgsgnode",
    "leave_without_output",
    "save_notebook",
    "split_code_and_text_blocks",
    "visit_imgsg_html",
]


def leave_without_output(env: Any, pages: list[str]) -> None:
    """Have MyST-NB show pages without output, by what it keeps in the environment."""
    env.mystnb_config = env.mystnb_config.copy(execution_excludepatterns=pages)
