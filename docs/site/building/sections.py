"""The directive `sections`: a table of contents that leaves out pages which are not there (yet).

A page that is there but in no section is still a warning of Sphinx, and a warning ends the build.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.directives.other import TocTree


class Sections(TocTree):
    """A `toctree` whose entries may be missing: `page`, `Title <page>` or, for all pages of a folder, `folder/*`."""

    def run(self) -> list[nodes.Node]:
        known = sorted(self.env.found_docs)
        entries: list[str] = []
        for line in filter(None, (line.strip() for line in self.content)):
            page = line.rpartition("<")[2].rstrip(">")
            matching = [
                name for name in known if PurePosixPath(name).match(page) and name.count("/") == page.count("/")
            ]
            entries += matching if "*" in page else [line] * bool(matching)
        self.content = StringList(entries, source=self.env.docname)
        return super().run() if entries else []


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("sections", Sections)
    return {"parallel_read_safe": True}
