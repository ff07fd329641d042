"""Docstrings as this project writes them, Markdown in the main, in the form that autodoc takes.

`name` is code, and a link where the name is known; *word* is stressed; `>>>` begins an example; "- " and "(1) " begin
the items of a list. Everything else means itself, be it |L_R| or n^q_t.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
STRESSED = re.compile(r"(?<![\w*])\*(\w[\w -]*)\*(?!\w)")
SPECIAL = re.compile(r"[\\*_|]")
PAGE = re.compile(r"docs/(\w+)\.md")
ITEM = re.compile(r"(?:-|\(\d+\)) ")
# What a method of the client gives: its source says how the answer is fetched.
ANSWER = re.compile(r"^(Answer|Items)\[(.*)\]$")


def as_restructured(lines: list[str]) -> list[str]:
    """A docstring, line by line, as reStructuredText."""
    result: list[str] = []
    for block in "\n".join(lines).strip("\n").split("\n\n"):
        rows = block.strip("\n").split("\n")
        if rows[0].lstrip().startswith(">>>"):
            result += [row.strip() for row in rows]
        elif any(row.startswith(("├", "└")) for row in rows) or all(row.startswith("    ") for row in rows):
            result += ["::", "", *(f"    {row}" for row in rows)]
        else:
            for text in _joined(rows):
                item = ITEM.match(text)
                result += [f"* {_escaped(text[item.end() :])}" if text.startswith("- ") and item else _escaped(text), ""]
        result.append("")
    return result


def _joined(rows: list[str]) -> list[str]:
    """The lines of a paragraph as one, or as one for each item of its list."""
    texts: list[str] = []
    for row in rows:
        if not texts or ITEM.match(row):
            texts.append(row.strip())
        else:
            texts[-1] += " " + row.strip()
    return texts


def _escaped(text: str) -> str:
    """Text with its code, names, stresses and pages marked; no other character has a meaning."""
    pieces: list[str] = []
    for place, piece in enumerate(CODE.split(text)):
        if place % 2:
            pieces.append(f":py:obj:`{piece}`" if NAME.fullmatch(piece) else f"``{piece}``")
            continue
        marks: list[str] = []
        for pattern, form in ((STRESSED, "*{}*"), (PAGE, ":doc:`docs/{0}.md </{0}>`")):
            piece = pattern.sub(lambda m, form=form: (marks.append(form.format(m[1])), f"\0{len(marks) - 1}\0")[1], piece)
        piece = SPECIAL.sub(lambda m: "\\" + m[0], piece)
        pieces.append(re.sub(r"\0(\d+)\0", lambda m, marks=marks: marks[int(m[1])], piece))
    return "".join(pieces)


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_restructured(lines)


def plain_answers(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, arguments: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """What a client's method returns to its caller."""
    found = ANSWER.match(returns or "")
    if not found:
        return None
    return arguments, found[2] if found[1] == "Answer" else f"Iterator[{found[2]}]"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", plain_answers)
    return {"parallel_read_safe": True}
