"""Mathematics as MathML, made while the site is built: no script, no font and no network to show it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

NAME = "sparingly-mathml"  # conf.py chooses it


def inline(translator: Any, node: nodes.math) -> None:
    from sparingly.lab.mathml import mathml

    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    from sparingly.lab.mathml import mathml

    translator.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer(NAME, (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
