"""docs/paper.md's table of the paper's items against reality: functions, problems, claims and tests exist."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from pathlib import Path

import pytest

from sparingly.lab.claims import CLAIMS

ROOT = Path(__file__).parents[1]
HEADER = "| item | what it says | function | problem | claim | test |"


def rows() -> list[list[str]]:
    """The cells of each row."""
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    body = text.split(HEADER, 1)[1].split("\n\n", 1)[0]
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in body.strip().splitlines()[1:]]


def named(cell: str) -> list[str]:
    """What a cell names in backticks; a dash must give its reason."""
    found = re.findall(r"`([^`]+)`", cell)
    assert found or re.fullmatch(r" – \(.{5,}\) ", cell), f"neither a name nor a dash with a reason: {cell!r}"
    return found


def exists(name: str) -> bool:
    """Whether a dotted name below `sparingly` leads to something that can be called."""
    parts = ["sparingly", *name.split(".")]
    for cut in range(len(parts) - 1, 0, -1):
        try:
            place = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            place = getattr(place, part, None)
        return callable(place)
    return False


@functools.cache
def functions_of(file: str) -> set[str]:
    """The functions that a test file defines."""
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


ROWS = rows()


@pytest.mark.parametrize("cells", ROWS, ids=[f"{row[0].strip()}, {row[1].strip()}" for row in ROWS])
def test_what_a_row_names_exists(cells):
    assert len(cells) == 6 and cells[0].strip() and cells[1].strip()
    for name in [*named(cells[2]), *named(cells[3])]:
        assert exists(name), f"there is no function or class {name}"
    for claim in named(cells[4]):
        assert claim in CLAIMS, f"there is no claim {claim}"
    for test in named(cells[5]):
        file, _, function = test.partition("::")
        assert function.startswith("test_") and function in functions_of(file), f"there is no test {test}"


def test_everything_that_the_paper_numbers_has_a_row():
    """Propositions 1, 2, 4 to 6, Corollary 3, Lemmas 7 to 33, Theorems 1 to 7, Algorithms 1 to 8, Remarks 1 and 2."""
    items = {row[0].strip() for row in ROWS}
    numbered = [("Proposition", (1, 2, 4, 5, 6)), ("Corollary", (3,)), ("Lemma", range(7, 34))]
    numbered += [("Theorem", range(1, 8)), ("Algorithm", range(1, 9)), ("Remark", (1, 2)), ("Example", (1,))]
    missing = {f"{kind} {number}" for kind, numbers in numbered for number in numbers} - items
    assert not missing


def test_every_claim_about_the_paper_has_a_row():
    """All but those about our own rules."""
    listed = {claim for row in ROWS for claim in named(row[4])}
    assert {name for name in CLAIMS if not name.startswith("ours/")} <= listed


@pytest.mark.parametrize("cell", [" – ", " — (a reason) ", " nothing ", " – (x) ", " "])
def test_a_dash_without_a_reason_is_noticed(cell):
    with pytest.raises(AssertionError):
        named(cell)


def test_what_is_not_there_is_noticed():
    assert not exists("theory.upper.cbm_nothing") and not exists("theory.nothing.cbm_ucb")
    assert "test_nothing" not in functions_of("test_paper.py") and functions_of("test_nothing.py") == set()
