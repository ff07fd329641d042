"""What CONTRIBUTING says it takes to add a rule or a learner, done: one file and one line, and every path knows it.

A copy of the package gets a rule and a learner of each setting; a script then takes them through the Agent, the
simulator on its three paths, saving, an experiment file, the HTTP contract and the reference, compiled and not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparingly

RULE = '''
"""HalfMatching: exact matching with half of the budget, for arms and episodes."""

from __future__ import annotations

from dataclasses import dataclass

from sparingly.ledger import UNLIMITED
from sparingly.numba_support import inlined
from sparingly.protocol import Question
from sparingly.rules.rule import Rule


@inlined
def asks(rule: HalfMatching, question: Question) -> bool:
    """2 (n^q + 1)·C ≤ B."""
    return question.asked <= limit(rule, question)


@inlined
def limit(rule: HalfMatching, question: Question) -> int:
    """The largest n^q with (n^q + 1)·C ≤ share·B."""
    units = question.units
    return UNLIMITED if units.granted >= UNLIMITED else int(rule.share * units.granted) // units.total_cost - 1


@dataclass(frozen=True)
class HalfMatching(Rule, tabular=asks, episodic=asks, limit=limit):
    """Exact matching with a share of the budget."""

    summary = "Exact matching with a share of the budget."

    share: float = 0.5
'''

LEARNER = '''
"""Hoeffding: index = mean + sqrt(breadth·log t/n)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.numba_support import inlined
from sparingly.tabular.learner import TabularLearner


@inlined
def level(learner: Hoeffding, rounds: int) -> float:
    return learner.scale * math.sqrt(learner.breadth * math.log(max(rounds, 2)))


@inlined
def index(learner: Hoeffding, estimate: Any, level: float) -> float:
    return estimate.average + level * estimate.shrink


@dataclass(frozen=True)
class Hoeffding(TabularLearner, level=level, index=index):
    """UCB with another breadth."""

    summary = "UCB with another breadth."

    breadth: float = 2.0
'''

SCRIPT = """
import json, sys
import numpy as np
import sparingly as sp
from sparingly.saving import dumps, loads

rule, learner = sp.HalfMatching(), sp.Hoeffding(3)
problem, budget = sp.problems.Arms([0.3, 0.5, 0.6]), sp.budgets.Bernoulli(0.5)
found = {}
pairs = {"rule": (sp.UCB1(3), rule), "learner": (learner, sp.ExactMatching()), "both": (learner, rule)}
for name, (made, asking) in pairs.items():
    runs = [
        sp.simulate(problem, made, asking, budget, rounds=200, runs=1, seed=1, checkpoints=range(1, 201), path=path)
        for path in ("fast", "plain", "agent")
    ]
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0].regret, other.regret)
        np.testing.assert_array_equal(runs[0].asked, other.asked)
    assert 0 < runs[0].asked[0, -1] <= runs[0].budget[0, -1]
    found[name] = [*runs[0].regret[0].tolist(), *runs[0].asked[0].tolist()]
episodes = sp.problems.random_mdp(3, 2, 2, seed=0)
r = sp.simulate(episodes, sp.UCBVI(3, 2, 2), rule, 60, rounds=50, runs=1)
assert r.refused.sum() == 0 and 0 < r.asked[0, -1] <= 30
found["episodes"] = r.asked[0].tolist()

agent = sp.Agent(learner, rule, budget=30, seed=0)
for _ in range(20):
    d = agent.decide()
    if d.ask:
        agent.observe(d.id, 0.5)
assert agent.ledger.spent == 15 and dumps(loads(dumps(agent))) == dumps(agent)
question = sp.Question(round=1, asked=0, width=1.0, cost=1.0, total_cost=3.0, budget=6.0, spent=0.0, cells=3)
assert rule.asks(question) and not rule.asks(question._replace(budget=5.0))

try:
    sp.Agent(sp.OFUL(2), rule, budget=1)
except sp.InvalidInput as error:
    assert "HalfMatching is for arms and episodes, not for features" in str(error), error
else:
    raise AssertionError("a rule without a setting was taken there")

from sparingly.lab import catalogue
assert catalogue.build(catalogue.RULES, "rule", {"type": "HalfMatching", "share": 0.25}) == sp.HalfMatching(0.25)
assert catalogue.build(catalogue.LEARNERS, "learner", {"type": "Hoeffding", "arms": 3}) == learner

import msgspec
from sparingly.serve import contract, factory
body = {"learner": {"type": "Hoeffding", "breadth": 1.0}, "actions": ["a", "b"], "rule": {"type": "HalfMatching"}}
made = factory.make_agent(msgspec.convert(body, contract.AgentBody))
assert made.learner == sp.Hoeffding(2, breadth=1.0) and made.rule == sp.HalfMatching()

from sparingly.testing import check_learner, check_rule
check_rule(rule, rounds=30)
check_learner(learner, rounds=30)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with a rule and a learner more: a file and a line each."""
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(Path(sparingly.__file__).parent, folder / "sparingly", ignore=shutil.ignore_patterns("__pycache__"))
    for file, text, registry, line in (
        ("rules/half.py", RULE, "rules/__init__.py", "from sparingly.rules.half import HalfMatching as HalfMatching"),
        (
            "tabular/hoeffding.py", LEARNER, "tabular/learners.py",
            "from sparingly.tabular.hoeffding import Hoeffding as Hoeffding",
        ),
    ):  # fmt: skip
        (folder / "sparingly" / file).write_text(text.lstrip())
        place = folder / "sparingly" / registry
        before, after = place.read_text(), f"{line}\n# isort: on\n"
        assert before.count("# isort: on\n") == 1
        place.write_text(before.replace("# isort: on\n", after))
    return folder


@pytest.mark.slow
def test_one_file_and_one_line_are_enough(package):
    printed = {}
    for off in ("0", "1"):
        environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_DISABLE_JIT": off}
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT], env=environment, cwd=package, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        printed[off] = done.stdout
    assert printed["0"] == printed["1"]
