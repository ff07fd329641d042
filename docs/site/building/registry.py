"""The directive `registry`: the learners or the rules of the library, from their registries, in a table and in full."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from building.tables import table


class Registry(SphinxDirective):
    """Written as ```{registry} rules``` or ```{registry} learners```."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from sparingly.learners import LEARNERS
        from sparingly.protocol import SETTINGS
        from sparingly.rules import RULES

        parts: tuple[Any, ...] = {"learners": LEARNERS, "rules": RULES}[self.arguments[0]]
        rows = []
        for part in parts:
            where = [part.setting] if part in LEARNERS else [name for name in SETTINGS if name in part.functions]
            link = f"[`{part.__name__}`](#sparingly.{part.__name__})"
            page = re.sub("(?<=[a-z])(?=[A-Z])", "_", part.__name__).lower()
            more = f"[formula and figure](../{self.arguments[0]}/{page}.md)"
            rows.append((link, part.summary, ", ".join(SETTINGS[name] for name in where), more))
        classes = "\n".join(f".. autoclass:: sparingly.{part.__name__}" for part in parts)
        described = self.parse_text_to_nodes(f"```{{eval-rst}}\n{classes}\n```\n")
        return [table(self, (self.arguments[0].removesuffix("s"), "", "for", ""), rows), *described]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("registry", Registry)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
