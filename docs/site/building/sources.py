"""Links to files of the repository: they lead to pages of the site that show the file, or to the page made of it.

In the documents such links are relative paths, so that they work on a code host. Here a link to a document becomes a
link to its page, and any other file gets a page `source/PATH.html` with line numbers, which [source] in the reference
uses as well.
"""

from __future__ import annotations

import html
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[3]
PAGES = {"README.md": "index", "CONTRIBUTING.md": "project/contribute", "CHANGELOG.md": "project/changes"}


def shown_files(env: BuildEnvironment) -> dict[str, set[str]]:
    """For each document the files and folders that it links to."""
    if not hasattr(env, "sparingly_files"):
        env.sparingly_files = {}
    return env.sparingly_files


def page_of(env: BuildEnvironment, docname: str, path: Path) -> str:
    """The address of the page that shows a file or a folder, as seen from a document; the page will be made."""
    inside = path.relative_to(ROOT).as_posix()
    shown_files(env).setdefault(docname, set()).add(inside)
    return "../" * docname.count("/") + f"source/{inside}.html"


class RepositoryLinks(SphinxTransform):
    """Give links and images, which are relative to the file that they stand in, their places in the site."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for node in list(self.document.findall(nodes.image)):
            path = self._home(node) / node["uri"]
            if path.is_file():
                node["uri"] = "/" + Path(os.path.relpath(path, self.env.srcdir)).as_posix()
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                if node.get("reftype") == "myst":
                    self._relink(node)

    def _home(self, node: nodes.Node) -> Path:
        """The folder of the file that a node comes from: not that of the page, if the file was included there."""
        while node.source is None and node.parent is not None:
            node = node.parent
        return Path(node.source or self.document["source"]).parent

    def _relink(self, node: nodes.Element) -> None:
        target, _, anchor = node["reftarget"].partition("#")
        if target.endswith(".ipynb"):
            return  # a notebook is downloaded
        if node.get("refdomain") == "doc":
            path = (Path(self.env.srcdir) / f"{target}.md").resolve()
            anchor = node.get("reftargetid") or ""
        else:
            path = (self._home(node) / target).resolve()
        if not target or not path.exists() or not path.is_relative_to(ROOT):
            return  # Sphinx says that it leads nowhere
        docname = PAGES.get(path.relative_to(ROOT).as_posix()) or self.env.path2doc(str(path))
        if docname in self.env.found_docs:
            new = addnodes.pending_xref(
                refdomain="doc", reftype="myst", reftarget=docname, reftargetid=anchor or None,
                refdoc=self.env.docname, refexplicit=node["refexplicit"],
            )  # fmt: skip
        else:
            new = nodes.reference(refuri=page_of(self.env, self.env.docname, path), internal=True)
        new.source, new.line = node.source, node.line
        new += node.children
        node.replace_self(new)


def add_source_links(app: Sphinx, doctree: nodes.document) -> None:
    """Put a link to its lines behind everything in the reference that has a source."""
    for signature in doctree.findall(addnodes.desc_signature):
        found = _where(signature.get("module"), signature.get("fullname"))
        if found is not None:
            path, line = found
            address = f"{page_of(app.env, app.env.docname, path)}#L-{line}"
            words = nodes.inline("", "[source]", classes=["viewcode-link"])
            signature += nodes.reference("", "", words, refuri=address, internal=True)


def _where(module: str | None, name: str | None) -> tuple[Path, int] | None:
    """The file and the line of a documented object, if it is a class or a function of this repository."""
    thing = sys.modules.get(module or "")
    for part in (name or "").split("."):
        thing = getattr(thing, part, None)
    thing = getattr(thing, "fget", None) or getattr(thing, "py_func", None) or inspect.unwrap(thing) if thing else None
    try:
        path, line = Path(inspect.getsourcefile(thing) or "").resolve(), inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return None
    return (path, line) if path.is_relative_to(ROOT / "src") else None


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file that is linked to, and for each folder a list of what is in it."""
    linked = sorted(set().union(*shown_files(app.env).values()))
    folders = {name: _listing(ROOT / name) for name in linked if (ROOT / name).is_dir()}
    files = [name for name in linked if name not in folders] + [
        f"{f}/{x}" for f, names in folders.items() for x in names
    ]
    for name, names in folders.items():
        items = (f'<li><a href="{Path(name).name}/{html.escape(x)}.html">{html.escape(x)}</a></li>' for x in names)
        yield from _page(name, f"<ul>{''.join(items)}</ul>")
    for name in sorted(set(files)):
        yield from _page(name, _highlighted(app, ROOT / name))


def _listing(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_file() and p.suffix in {".py", ".md", ".toml", ".txt", ".c"})


def _highlighted(app: Sphinx, path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    try:
        language = get_lexer_for_filename(path.name).aliases[0]
    except ClassNotFound:
        language = "none"
    options = {"linenos": "inline", "linespans": "L"}
    return str(app.builder.highlighter.highlight_block(text, language, force=True, **options))


def _page(name: str, body: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    title = html.escape(name)
    yield f"source/{name}", {"title": title, "body": f"<h1><code>{title}</code></h1>{body}"}, "page.html"


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    shown_files(env).pop(docname, None)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(RepositoryLinks)
    app.connect("doctree-read", add_source_links)
    app.connect("env-purge-doc", forget)
    app.connect("html-collect-pages", source_pages)
    return {"parallel_read_safe": False}  # what one process notes another would not see
