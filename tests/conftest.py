"""What the tests share: which learners, rules and budgets there are, markers by what a test needs, and Hypothesis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

os.environ.setdefault("SPARINGLY_COMPILE", "first")  # the tests are about compiled code, unless they say otherwise

import sparingly as sp
from sparingly.protocol import SETTINGS
from sparingly.rules import RULES as KINDS
from sparingly.tabular.learners import LEARNERS as TABULAR

settings.register_profile("sparingly", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unshrunk", settings.get_profile("sparingly"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("sparingly")

ROOT = Path(__file__).parent.parent
CORE = (  # what `make check` runs, but for the tests that are marked slow
    *("agent", "budgets", "ledger", "randomness", "saving", "settings", "structure", "testing", "vectors", "withdraw"),
    *("rules", "tabular", "linear", "episodic", "simulation", "properties", "frozen", "theory", "problems"),
)
NEEDS = {  # the fixture or parameter that tells, and the marker
    "browser": "browser", "postgres": "postgres", "two_processes": "postgres", "ray_head": "cluster", "ray": "cluster",
    "dask": "cluster",
}  # fmt: skip

# Every learner for arms and every rule of the registries: the tests that compare all paths take them from here.
LEARNERS = {learner.__name__: learner for learner in TABULAR}
RULES = {setting: [e for kind in KINDS if setting in kind.functions for e in kind.examples()] for setting in SETTINGS}
BUDGETS = [
    sp.budgets.Linear(0.3),
    sp.budgets.Polynomial(0.7),
    sp.budgets.Fixed(100),
    sp.budgets.Late(60, start=50),
    sp.budgets.Periodic(20, every=30),
    sp.budgets.Bernoulli(0.4),
    sp.budgets.Sequence(np.cumsum(np.arange(300) % 3 == 0)),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the core by where they are, and those that need more than Python by their fixtures."""
    for item in items:
        inside = item.path.is_relative_to(ROOT / "tests")
        place = (
            item.path.relative_to(ROOT / "tests").parts[0].removesuffix(".py").removeprefix("test_") if inside else ""
        )
        if place in CORE:
            item.add_marker("core")
        chosen = getattr(item, "callspec", None)
        for need in (*getattr(item, "fixturenames", ()), *(chosen.params.values() if chosen else ())):
            if isinstance(need, str) and need in NEEDS:
                item.add_marker(NEEDS[need])


def same(first: sp.Simulation, second: sp.Simulation) -> None:
    """Assert that two simulations went exactly the same way."""
    for name in ("rounds", "regret", "asked", "spent", "budget", "refused", "plays"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=f"{name}: {first.labels}")


def interpreted(module: str) -> Any:
    """What `digest()` of a test module gives with the compiler switched off."""
    code = f"import json; from {module} import digest; print(json.dumps(digest()))"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture
def agent() -> sp.Agent:
    """A small agent with some budget."""
    return sp.Agent(sp.UCB1(arms=3), rule=sp.ExactMatching(), budget=30, seed=0)
