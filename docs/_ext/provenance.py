"""Where a page comes from: what ran its code and when, its source, and how to correct it.

``repository`` is the address of the repository on its host, whose issues are where the
project is reached; without it a page names its source and offers no link to it. In a text,
``:::{only} repository`` holds what needs the address, and ``{repo}`path``` links to it.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sphinx.application import Sphinx
from sphinx.config import Config

from pages import GALLERY, Store, executed


def setup(app: Sphinx) -> dict[str, Any]:
    """Collect what is known of each page; give it to the templates."""
    app.setup_extension("sphinx.ext.extlinks")
    app.add_config_value("repository", "", "env", [str])
    app.add_config_value("repository_branch", "main", "html", [str])
    provenance = Provenance()
    app.connect("config-inited", name_repository)
    app.connect("write-started", provenance.collect)
    app.connect("html-page-context", provenance.put)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def name_repository(app: Sphinx, config: Config) -> None:
    """Let texts link to the repository, where its address is known."""
    config.repository = config.repository.rstrip("/")
    if config.repository:
        app.tags.add("repository")
    config.extlinks = {**config.extlinks, "repo": (f"{config.repository}/%s", None)}


ASKED = """\
What is wrong:


What is right, and how you know:


Written in {}."""


class Provenance:
    """Keeps what the build knows of its pages while they are written.

    Attributes:
        ran: The day on which the code of each page ran, by its name in Sphinx.
    """

    ran: dict[str, str]

    def collect(self, app: Sphinx, builder: Any) -> None:
        """Ask the store when each page ran."""
        store = Store(Path(app.confdir).parent)
        self.ran = {}
        for page in executed(store.root):
            if store.fresh(page):
                ran = self.ran.get(page.docname, "")
                self.ran[page.docname] = max(store.day(page), ran)

    def put(
        self,
        app: Sphinx,
        page: str,
        template: str,
        context: dict[str, Any],
        doctree: object,
    ) -> None:
        """Give the template of one page what it says at its foot."""
        if doctree is None:
            return
        source = source_of(app, page)
        context["provenance"] = {
            "source": source,
            "ran": self.ran.get(page),
            "torch": version("torch").partition("+")[0],
        }
        if repository := app.config.repository:
            edit = f"{repository}/edit/{app.config.repository_branch}/{source}"
            about = f"{page} ({app.config.project} {app.config.release})"
            query = urlencode({"title": about, "body": ASKED.format(source)})
            context["provenance"] |= {
                "edit": edit,
                "report": f"{repository}/issues/new?{query}",
            }


def source_of(app: Sphinx, page: str) -> str:
    """Return the file of the repository in which a page is written."""
    root = Path(app.confdir).parent
    kind, *rest = Path(page).parts
    if kind == GALLERY:
        script = Path("examples", *rest)
        header = script.with_name("GALLERY_HEADER.rst")
        return (header if script.name == "index" else script.with_suffix(".py")).as_posix()
    if kind == "errors" and rest:
        (file,) = root.glob(f"src/*/messages/*/{rest[0]}.md")
        return file.relative_to(root).as_posix()
    return Path("docs", app.env.doc2path(page, base=False)).as_posix()
