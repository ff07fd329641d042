"""Writes docs/tutorial.ipynb from docs/tutorial.md: the same text, each block of Python a cell.

python docs/site/notebook.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```(python|text)\n(.*?)```\n?", re.DOTALL)


def cells(text: str) -> list[dict[str, Any]]:
    """The cells of a notebook: text as it is, Python to be run; what it prints is left out, for the notebook shows it.

    >>> [cell["cell_type"] for cell in cells("# A\\n```python\\n1\\n```\\n```text\\n1\\n```\\nB")]
    ['markdown', 'code', 'markdown']
    """
    made: list[dict[str, Any]] = []
    pieces = BLOCK.split(text)
    for words, kind, block in zip(pieces[::3], [*pieces[1::3], ""], [*pieces[2::3], ""], strict=True):
        if words.strip():
            made.append({"cell_type": "markdown", "metadata": {}, "source": _lines(words)})
        if kind == "python":
            code = {"execution_count": None, "outputs": [], "source": _lines(block)}
            made.append({"cell_type": "code", "metadata": {}, **code})
    return [{"id": f"cell-{place}", **cell} for place, cell in enumerate(made)]


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def notebook(text: str) -> str:
    """A notebook with the cells of a page."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": cells(text),
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (DOCS / "tutorial.ipynb").write_text(notebook((DOCS / "tutorial.md").read_text("utf-8")), "utf-8")
