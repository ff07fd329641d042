"""Docstrings as this project writes them, Markdown in the main, in the form that autodoc takes.

`name` is code, and a link where the name is known; *word* is stressed; `>>>` begins an example; "- " and "(1) " begin
the items of a list. After "Parameters:" come items, "- `name`: what it is", and after "Returns:" what comes back; both
may also be underlined headings, as NumPy has them. Everything else means itself, be it |L_R| or n^q_t.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.inspect import TypeAliasForwardRef

MARK = re.compile(r"`(?P<code>[^`]+)`|(?<![\w*])\*(?P<word>\w[\w -]*)\*(?!\w)|docs/(?P<page>\w+)\.md")
NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")
SPECIAL = re.compile(r"[\\*_|`]")
ITEM = re.compile(r"(?:-|\(\d+\)) ")
PARAMETER = re.compile(r"- ((?:`\w+`(?:, )?)+): (.*)")
ANSWER = re.compile(r"Emit\[(.*?)\], [\w.~]*Response\b")  # in the type of what fetches an answer of the service


def as_restructured(lines: list[str], own: Collection[str] = ()) -> list[str]:
    """A docstring, line by line, as reStructuredText; `own` are the names of parameters, which link to nothing."""
    result: list[str] = []
    for block in "\n".join(lines).strip("\n").split("\n\n"):
        rows = block.strip("\n").split("\n")
        fields = _fields(rows)
        if fields is not None:
            result += [f":{field}: {_escaped(text, own)}" for field, text in fields]
        elif rows[0].lstrip().startswith(">>>"):
            result += [row.strip() for row in rows]
        elif any(row.startswith(("├", "└")) for row in rows) or all(row.startswith("    ") for row in rows):
            result += ["::", "", *(f"    {row}" for row in rows)]
        else:
            for text in _joined(rows):
                bullet = "* " if text.startswith("- ") else ""
                result += [bullet + _escaped(text.removeprefix("- "), own), ""]
        result.append("")
    return result


def _fields(rows: list[str]) -> list[tuple[str, str]] | None:
    """The fields of a section on parameters or on what is returned, each with its text; None for other blocks."""
    head, underlined = rows[0].rstrip(":"), len(rows) > 1 and set(rows[1]) == {"-"}
    if head not in ("Parameters", "Returns") and not rows[0].startswith("Returns: "):
        return None
    if rows[0].startswith("Returns: "):
        return [("returns", " ".join(_joined(rows))[len("Returns: ") :])]
    if head == "Returns":
        return [("returns", " ".join(row.strip() for row in rows[2:] if row.startswith(" ")))]
    found: list[tuple[str, str]] = []
    if underlined:
        for row in rows[2:]:
            if row.startswith(" "):
                found[-1] = (found[-1][0], f"{found[-1][1]} {row.strip()}".strip())
            else:
                found.append((row, ""))
    else:
        items = [PARAMETER.fullmatch(text) for text in _joined(rows[1:])]
        found = [(item[1].replace("`", ""), item[2]) for item in items if item]
    return [(f"param {name}", text) for names, text in found for name in names.split(", ")]


def _joined(rows: list[str]) -> list[str]:
    """The lines of a paragraph as one, or as one for each item of its list."""
    texts: list[str] = []
    for row in rows:
        if not texts or ITEM.match(row):
            texts.append(row.strip())
        else:
            texts[-1] += " " + row.strip()
    return texts


def _escaped(text: str, own: Collection[str]) -> str:
    """Text with its code, names, stresses and pages marked; no other character has a meaning."""
    result, last = "", 0
    for mark in MARK.finditer(text):
        result += _plain(text[last : mark.start()]) + _marked(mark, own)
        last = mark.end()
        if text[last : last + 1].isalnum():
            result += "\\ "  # a mark ends at the end of a word
    return result + _plain(text[last:])


def _plain(text: str) -> str:
    return SPECIAL.sub(lambda found: "\\" + found[0], text)


def _marked(mark: re.Match[str], own: Collection[str]) -> str:
    code, word, page = mark.group("code", "word", "page")
    if code:
        return f":py:obj:`{code}`" if NAME.fullmatch(code) and code not in own else f"``{code}``"
    return f"*{word}*" if word else f":doc:`docs/{page}.md </{page}>`"


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    try:
        own = set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        own = set()
    if inspect.isclass(thing):
        own |= {name for name, part in vars(thing).items() if isinstance(part, property)}
    generated = [line for line in lines if line.startswith("Alias for field number")]  # by Python, for a NamedTuple
    lines[:] = [] if generated else as_restructured(lines, own)


def plain_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, arguments: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """Signatures as callers see them.

    A client's method gives its answer; protocols, and results with lists in them, are not made by callers.
    """
    if getattr(thing, "_is_protocol", False) or "<factory>" in (arguments or ""):
        return "", None
    found = ANSWER.search(returns or "")
    if found:
        from sparingly.serve.client import Listed, Methods

        several = isinstance(vars(Methods)[name.rpartition(".")[2]], Listed)
        returns = f"Iterator[{found[1]}]" if several else found[1]
    return arguments, returns


def setup(app: Sphinx) -> dict[str, Any]:
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # inside a tuple or a union, too, an alias is its name
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", plain_signature)
    return {"parallel_read_safe": True}
