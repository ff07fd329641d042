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
    ("ucb/rate", {"runs": 200}, asks_nothing),
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
    ("ours/balanced-starves-not", {"runs": 60}, no_reserve),
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
    ("ucb/budget", BUDGET, asks_nothing),  # it must spend an eighth
    ("oful/budget", BUDGET, asks_nothing),
    ("ours/exact-spends", {}, asks_always),
    ("constants/arms", {"rounds": 500}, tiny_bonus),
    ("constants/features", {"rounds": 200}, asks_nothing),
    ("greedy/past-policies", {"rounds": 1_500, "runs": 600}, greedy_is_matching),
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


def verdict_of(tmp_path: Path, name: str, smaller: dict[str, object]) -> str:
    """The verdict in the copy, in plain Python, which needs no compilation."""
    code = (
        f"from sparingly.lab.claims import CLAIMS, Runner; c = CLAIMS[{name!r}];"
        f"print(c.run(Runner(), **{{**c.quick, **{smaller!r}}}).verdict)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SHORT = {
    "constants/arms": {"rounds": 800}, "constants/features": {"rounds": 400}, "constants/ledger": {"rounds": 300},
    "constants/ucbvi": {"episodes": 600}, "constants/ulcvi": {"episodes": 600}, "corrections/e5": {"episodes": 20},
}  # fmt: skip
LINES = [  # a claim, the file, and a line of it with a constant or a term that is wrong
    ("constants/arms", "tabular/ucb1.py", "math.sqrt(1.5 * math.log(max", "0.5 * math.sqrt(1.5 * math.log(max"),
    ("constants/arms", "tabular/moss.py", "math.log(rounds / learner.arms)", "math.log(rounds)"),
    ("constants/arms", "rules/paper.py", "units.granted // (16 *", "units.granted // (4 *"),
    ("constants/arms", "rules/exact.py", "// units.total_cost - 1)", "// units.total_cost)"),
    ("constants/features", "rules/exact.py", "left // price + 1)", "left // price + 2)"),
    ("constants/features", "rules/exact.py", "asks = left / cheapest", "asks = left / dearest"),
    ("constants/features", "rules/paper.py", "granted == 0 or square > budget", "granted == 0"),
    ("constants/features", "linear/oful.py", "L * L / ridge) / delta)", "L * L / ridge))"),
    ("constants/ledger", "ledger.py", "account[0].spent + cost <=", "account[0].spent + 1 <="),
    ("constants/ucbvi", "rules/intervals.py", "squares / (n - 1)", "squares / n"),
    ("constants/ucbvi", "rules/paper.py", "6.0 * math.sqrt(rewarding / ", "6.0 * math.sqrt(cells / "),
    (
        "constants/ucbvi",
        "episodic/ucbvi.py",
        "return learner.horizon * math.sqrt(2.0 / n)",
        "return math.sqrt(2.0 / n)",
    ),
    ("constants/ulcvi", "episodic/ulcvi.py", "44.0 *", "22.0 *"),
    ("constants/ulcvi", "episodic/value_iteration.py", "expected(model, row, lower)", "expected(model, row, upper)"),
    ("corrections/e5", "episodic/value_iteration.py", "float(horizon - h)", "float(horizon - h - 1)"),
]


@pytest.mark.parametrize(
    ("name", "file", "old", "new"), LINES, ids=[f"{name}-{file}-{i}" for i, (name, file, *_) in enumerate(LINES)]
)
def test_a_wrong_constant_turns_a_claim_to_fails(tmp_path, name, file, old, new):
    mutated(tmp_path, file, old, new)
    assert verdict_of(tmp_path, name, SHORT[name]) == "fails"


@pytest.mark.parametrize("name", SHORT)
def test_nothing_changed_is_the_control(tmp_path, name):
    """It is the wrong line that makes the difference."""
    mutated(tmp_path, "episodic/value_iteration.py", "float(horizon - h)", "float(horizon - h + 0)")
    assert verdict_of(tmp_path, name, SHORT[name]) in ("holds", "holds as corrected")
