"""The README is short and true, the notebook is the tutorial, the glossary and the pages of parts follow the code."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

import sparingly as sp
from sparingly.lab.mathml import mathml
from sparingly.learners import LEARNERS
from sparingly.rules import RULES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PARTS = [part.__name__ for part in (*LEARNERS, *RULES)]
sys.path[:0] = [str(DOCS / "site")]

from building.formulas import FORMULAS  # noqa: E402  (the path comes first)
from notebook import notebook  # noqa: E402


def test_the_readme_is_short():
    assert len(README.split()) < 900


def test_the_readme_begins_with_what_it_is_and_how_to_start():
    first_screen = README.splitlines()[:16]
    assert any(line.startswith("make run ") for line in first_screen)
    assert any(line.startswith("make test ") for line in first_screen)
    assert README.count("![") == 1 and README.index("![") < README.index("## ")
    assert README.index("pip install .") < README.index("import sparingly as sp") < README.index("curl -X PUT")
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    assert len(example.strip().splitlines()) <= 11


def test_code_of_the_readme_fits_a_code_host():
    blocks = re.findall(r"```\w+\n(.*?)```", README, re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > 98] == []


def rows(text: str) -> list[list[str]]:
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return found[2:]  # without the head


def test_the_table_of_the_readme_is_that_of_the_worlds():
    """`make worlds` writes both; a table that was changed by hand would differ."""
    worlds = (DOCS / "worlds.md").read_text(encoding="utf-8").partition("### Candidates")[2].partition("###")[0]
    theirs = {row[0]: tuple(row[3:6]) for row in rows(worlds)}
    assert f"the same {rows(worlds)[0][1]} worlds" in " ".join(README.split())
    table = rows(README.partition("<!-- worlds: begin -->")[2].partition("<!-- worlds: end -->")[0])
    assert sorted(tuple(row[1:]) for row in table) == sorted(theirs.values())
    assert tuple(table[0][1:]) == theirs["BalancedMatching"] and "`BalancedMatching`" in table[0][0]
    ours = {row[0]: tuple(row[1:]) for row in table}
    assert ours["ask until spent, then play the best mean"] == theirs["until spent, then the best mean"]


def test_the_notebook_is_the_tutorial():
    """Its cells are the blocks that tests/test_structure.py runs."""
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    kept = (DOCS / "tutorial.ipynb").read_text(encoding="utf-8")
    assert kept == notebook(text), "python docs/site/notebook.py writes it anew"
    code = ["".join(cell["source"]) for cell in json.loads(kept)["cells"] if cell["cell_type"] == "code"]
    assert code == [block.strip("\n") for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def named(name: str) -> bool:
    """Whether the package has this name: a part of a module or of a class, or a field of a dataclass."""
    thing, parts = sp, name.split(".")
    for place, part in enumerate(parts, 1):
        if hasattr(thing, part):
            thing = getattr(thing, part)
        elif dataclasses.is_dataclass(thing) and part in {field.name for field in dataclasses.fields(thing)}:
            return place == len(parts)
        else:
            try:
                thing = importlib.import_module("sparingly." + ".".join(parts[:place]))
            except ImportError:
                return False
    return True


def test_the_code_follows_the_glossary():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    names = re.findall(r"`([\w.]+)`", text)
    assert len(names) > 40
    assert [name for name in names if not named(name)] == []
    assert not named("Agent.nothing") and not named("lab.nothing")
    terms = re.findall(r"^(.+)\n: ", text, re.MULTILINE)
    assert terms == sorted(terms) and len(set(terms)) == len(terms)


@pytest.mark.parametrize("name", PARTS)
def test_every_learner_and_rule_has_a_page_with_formula_and_figure(name):
    pages = [page for folder in ("learners", "rules") for page in (DOCS / folder).glob("*.md")]
    text = [page.read_text(encoding="utf-8") for page in pages]
    mine = [words for words in text if f"```{{part}} {name}\n" in words]
    assert len(mine) == 1 and mine[0].startswith(f"# {name}\n")
    assert re.search(r"\*\*(Use|Take) it\*\* ", mine[0])
    assert len(pages) == len(PARTS)
    for _, formula in FORMULAS[name]:
        assert mathml(formula, block=True).startswith("<math")
    with Image.open(DOCS / "figures" / f"part_{name}.png") as figure:
        assert figure.width > 800


@pytest.mark.parametrize(
    "words",
    [
        "delayed feedback",
        "non-stationary",
        "warm start",
        "off-policy evaluation",
        "active learning",
        "thompson",
    ],
)
def test_the_words_of_the_field_have_a_section(words):
    text = (DOCS / "situations.md").read_text(encoding="utf-8").lower()
    assert re.search(rf"^## {words}", text, re.MULTILINE)
