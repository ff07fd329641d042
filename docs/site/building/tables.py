"""Pieces that generated pages are made of: sections, paragraphs, code, tables. Texts are Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


def inline(directive: SphinxDirective, text: str) -> list[nodes.Node]:
    """Markdown of one paragraph as nodes."""
    return directive.parse_inline(text, lineno=directive.lineno)[0]


def paragraph(directive: SphinxDirective, text: str) -> nodes.paragraph:
    return nodes.paragraph("", "", *inline(directive, text))


def section(directive: SphinxDirective, title: str, id: str, literal: bool = False) -> nodes.section:
    """A section with a heading, to which one can link."""
    words = nodes.literal("", title) if literal else nodes.Text(title)
    made = nodes.section("", nodes.title("", "", words), ids=[id], names=[id])
    directive.state.document.note_explicit_target(made)
    return made


def code(text: str, language: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language)


def table(directive: SphinxDirective, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> nodes.table:
    """A table whose cells are Markdown."""
    group = nodes.tgroup(cols=len(heads))
    group += [nodes.colspec(colwidth=1) for _ in heads]
    group += nodes.thead("", _row([[nodes.Text(head)] for head in heads]))
    group += nodes.tbody("", *(_row([inline(directive, cell) if cell else [] for cell in row]) for row in rows))
    return nodes.table("", group, classes=["colwidths-auto"])


def _row(cells: Iterable[list[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))
