"""Claims notice when something is broken on purpose: each mutation turns a claim that holds into one that fails."""

from __future__ import annotations

import ast
import functools
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sparingly
import sparingly as sp
from sparingly.lab.claims import CLAIMS, Runner

MATCHING = (sp.PaperMatching, sp.ExactMatching, sp.BalancedMatching)
PAPER = {"explore": "always"}  # the claims explore as the paper does, and so do these


def asks_nothing(learner, rule):
    return learner, sp.Never(**PAPER) if isinstance(rule, MATCHING) else rule


def asks_greedily(learner, rule):
    return learner, sp.Greedy() if isinstance(rule, MATCHING) else rule


def tiny_bonus(learner, rule):
    return replace(learner, scale=0.01 * learner.scale), rule


def asks_always(learner, rule):
    return learner, sp.Always(**PAPER) if isinstance(rule, MATCHING) else rule


def greedy_is_never(learner, rule):
    return learner, sp.Never(**PAPER) if isinstance(rule, sp.Greedy) else rule


def ours_is_the_papers(learner, rule):
    return learner, sp.PaperMatching() if isinstance(rule, sp.ExactMatching) else rule


def greedy_is_matching(learner, rule):
    return learner, sp.ExactMatching(**PAPER) if isinstance(rule, sp.Greedy) else rule


def balanced_is_exact(learner, rule):
    return learner, sp.ExactMatching(explore=rule.explore) if isinstance(rule, sp.BalancedMatching) else rule


def no_reserve(learner, rule):
    return learner, replace(rule, reserve=0.0) if isinstance(rule, sp.BalancedMatching) else rule


def explores_always(learner, rule):
    return learner, replace(rule, explore="always")


def asks_too_little(learner, rule):
    """About sqrt(B) asks: what it loses grows faster than sqrt(T), but only for gaps in between."""
    return learner, sp.Matching(alpha=2.5 * 5**0.5, beta=0.75, **PAPER) if isinstance(rule, MATCHING) else rule


def threshold_too_low(learner, rule):
    return learner, sp.Matching(alpha=1.0, **PAPER) if isinstance(rule, sp.PaperMatching) else rule


REGRET = {"rounds": 10**6, "adversarial_rounds": 300_000, "runs": 60}
RATE = {"horizons": (10_000, 40_000), "runs": 16}
FIXED = {"horizons": (16_000, 128_000, 1_024_000), "rounds": 512_000, "budgets": (1_600, 12_800, 51_200)}
TRAP = {"rounds": 50_000, "runs": 100}
BUDGET = {"rounds": 5_000, "runs": 4}
OFUL = {"rounds": 60_000}
OURS = {"rounds": 200_000, "adversarial_rounds": 50_000, "runs": 100, "horizon": 50_000}

# claim, what is smaller than in its quick mode, what is broken
BROKEN = [
    ("ucb/regret", REGRET, asks_nothing),
    ("ucb/regret", REGRET, asks_greedily),
    ("ucb/regret", REGRET, tiny_bonus),
    ("ucb/budget", BUDGET, asks_always),
    ("ucb/budget", BUDGET, threshold_too_low),
    ("ucb/rate", {}, asks_nothing),
    ("ucb/rate", {}, asks_too_little),
    ("profiles/fixed", FIXED, asks_nothing),
    ("profiles/fixed", FIXED, asks_too_little),
    ("greedy/adversarial-contexts", TRAP, asks_greedily),
    ("greedy/adversarial-contexts", TRAP, asks_nothing),
    ("greedy/adversarial-contexts", TRAP, greedy_is_matching),
    ("greedy/moss", {"rounds": 50_000}, greedy_is_never),
    ("greedy/oful", {}, greedy_is_never),
    ("greedy/ucbvi", {}, greedy_is_never),
    ("remarks/budget-after-action", {}, asks_nothing),
    ("remarks/initial-budget", {}, asks_nothing),
    ("ours/exact-arms", OURS, ours_is_the_papers),
    ("ours/exact-linear", {"rounds": 2_000, "horizon": 5_000}, ours_is_the_papers),
    ("ours/exact-episodes", {"rounds": 50_000}, ours_is_the_papers),
    ("ours/sparse-rewards", {"rounds": 50_000}, ours_is_the_papers),
    ("ours/balanced-arms", {}, balanced_is_exact),
    ("ours/balanced-oful", {}, asks_nothing),
    ("ours/balanced-starves-not", {}, no_reserve),
    ("ours/explore-asked", {}, explores_always),
    ("oful/regret", OFUL, asks_nothing),
    ("oful/regret", OFUL, asks_greedily),
    ("ucbvi/rate", RATE, asks_nothing),
    ("ucbvi/regret", {}, asks_nothing),
    ("ucbvi/regret", {}, asks_always),
    ("ulcvi/regret", {}, asks_nothing),
    ("ucbvi/budget", BUDGET, asks_nothing),
    ("ucbvi/budget", BUDGET, asks_always),
    ("ulcvi/budget", BUDGET, asks_nothing),
    ("ulcvi/budget", BUDGET, asks_always),
    ("episodic/one-query-per-episode", {}, asks_nothing),
    ("episodic/adversarial-states", {"horizons": (20_000, 80_000), "runs": 10}, asks_greedily),
    ("corrections/e2", {}, asks_always),
]


@pytest.mark.parametrize(
    ("name", "smaller", "broken"), BROKEN, ids=[f"{name}-{broken.__name__}" for name, _, broken in BROKEN]
)
def test_a_broken_policy_turns_a_claim_to_fails(name, smaller, broken):
    assert sound(name, repr(smaller)) != "fails"
    entry = CLAIMS[name]
    assert entry.run(Runner(change=broken), **{**entry.quick, **smaller}).verdict == "fails"


@functools.cache
def sound(name: str, smaller: str) -> str:
    """The verdict with nothing broken."""
    return CLAIMS[name].run(Runner(), **{**CLAIMS[name].quick, **ast.literal_eval(smaller)}).verdict


def mutated(folder: Path, file: str, old: str, new: str) -> None:
    """A copy of the package with one line changed."""
    source = Path(sparingly.__file__).parent
    shutil.copytree(source, folder / "sparingly", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "sparingly" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("episodic/value_iteration.py", "float(horizon - h)", "float(horizon - h - 1)"),  # the cut of E5, put back
        ("episodic/value_iteration.py", "float(horizon - h)", "float(horizon - h + 0)"),  # no change: the control
    ],
    ids=["e5 put back", "control"],
)
def test_the_cut_of_the_paper_put_back_turns_e5_to_fails(tmp_path, file, old, new):
    """In plain Python, which needs no compilation; the control shows that it is the cut that makes the difference."""
    mutated(tmp_path, file, old, new)
    code = (
        "from sparingly.lab.claims import CLAIMS, Runner; c = CLAIMS['corrections/e5'];"
        "print(c.run(Runner(), **{**c.quick, 'episodes': 20}).verdict)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ("holds as corrected" if new.endswith("+ 0)") else "fails")
