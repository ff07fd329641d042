"""A rule has the same colour in every figure and on every page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.colors import to_hex

import sparingly as sp
from sparingly.lab import claims_figures, experiment_results, styles
from sparingly.lab.claims import Curve, Panel
from sparingly.lab.planning import plan
from sparingly.lab.planning_report import figure as planning_figure
from sparingly.problems.tables import from_table
from sparingly.rules import RULES

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.py"), *(ROOT / "examples").rglob("*.py"),
           *(ROOT / "benchmarks").rglob("*.py")]  # fmt: skip
HEX = re.compile(r"#[0-9A-Fa-f]{6}\b")


def drawn(figure) -> dict[str, set[str]]:
    """For each rule, the colours of the lines that are labelled with it."""
    found: dict[str, set[str]] = {}
    for axis in figure.axes:
        for line, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if (rule := styles.rule_of(label)) and hasattr(line, "get_color"):
                found.setdefault(rule, set()).add(to_hex(line.get_color()))
    return found


def expected(*rules: str) -> dict[str, set[str]]:
    return {rule: {styles.RULE_COLOURS[rule].lower()} for rule in rules}


def test_every_rule_has_a_colour_of_its_own():
    assert set(styles.RULE_COLOURS) == {rule.__name__ for rule in RULES}
    assert len(set(styles.RULE_COLOURS.values())) == len(RULES)


@pytest.mark.parametrize("rule", styles.RULE_COLOURS)
def test_a_rule_is_found_in_a_label(rule):
    for label in (rule, f"UCB1 · {rule}, original", f"{rule}(explore='always')"):
        assert styles.rule_of(label) == rule


def test_a_colour_does_not_depend_on_the_order_or_on_the_company():
    labels = [*styles.RULE_COLOURS, "uniform", "by hand"]
    for order in (labels, labels[::-1], labels[3:5]):
        for label, colour in zip(order, styles.colours(order), strict=True):
            assert colour == styles.RULE_COLOURS.get(label, colour)
    mixed = styles.colours(["a", "Greedy", "b", "BalancedMatching"])
    assert len(set(mixed)) == 4  # others never take the colour of a rule that is in the figure


def test_figures_of_experiments_and_claims_have_them():
    rules = {"Greedy": sp.Greedy(), "ExactMatching": sp.ExactMatching(), "BalancedMatching": sp.BalancedMatching()}
    problem, learner = sp.problems.Arms([0.4, 0.6]), sp.UCB1(2)
    results = {name: sp.simulate(problem, learner, rule, 20, rounds=50, runs=2) for name, rule in rules.items()}
    assert drawn(experiment_results.figure({"two arms": results})) == expected(*rules)
    curves = tuple(Curve(name, (1.0, 2.0), (1.0, 2.0)) for name in ("Greedy, at once", "CBM-UCB"))
    with claims_figures.matplotlib.rc_context(claims_figures.STYLE):
        panel = claims_figures._draw(Panel("", "x", "y", curves)).axes[0]
    colours = {line.get_label(): line.get_color() for line in panel.lines}
    assert colours == {
        "Greedy, at once": claims_figures.legible(styles.RULE_COLOURS["Greedy"]),
        "CBM-UCB": claims_figures.legible(styles.RULE_COLOURS["PaperMatching"]),
    }


def test_the_figure_of_a_plan_has_them():
    rng = np.random.default_rng(0)
    rows = pandas.DataFrame({"who": ["m", "w"] * 60, "a": rng.random(120), "b": rng.random(120)})
    data = from_table(rows, {"context": "who", "rewards": ["a", "b"]})
    rules = ("Greedy", "BalancedMatching")
    assert drawn(planning_figure(plan(data, [5.0, 10.0], rules=rules, rounds=30, runs=2))) == expected(*rules)


def test_the_page_of_the_service_has_them():
    css = (ROOT / "src/sparingly/serve/page/page.css").read_text(encoding="utf-8")
    there = dict(re.findall(r'\[data-rule="(\w+)"\]::before \{ background: (#[0-9a-f]{6}); \}', css))
    assert there == {rule: colour.lower() for rule, colour in styles.RULE_COLOURS.items()}


def test_no_figure_has_colours_of_its_own():
    """A colour of a rule written anywhere else would not follow a change here."""
    ours = {colour.lower() for colour in styles.COLOURS[:-1]}
    allowed = {"styles.py", "claims_figures.py"}  # the place itself, and a docstring's example
    elsewhere = {
        path.name for path in SOURCES for colour in HEX.findall(path.read_text(encoding="utf-8"))
        if colour.lower() in ours and path.name not in allowed
    }  # fmt: skip
    assert elsewhere == set()
