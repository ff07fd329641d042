"""What the tests share: which learners, rules and budgets there are, and a quiet Hypothesis profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import sparingly as sp

settings.register_profile("sparingly", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sparingly")

LEARNERS = {
    "UCB1": lambda arms, contexts, **options: sp.UCB1(arms, contexts, **options),
    "MOSS": lambda arms, contexts, **options: sp.MOSS(arms, contexts, **options),
}
RULES = [
    sp.Always(),
    sp.Never(),
    sp.Greedy(),
    sp.Greedy(policies=3),
    sp.PaperMatching(),
    sp.ExactMatching(),
    sp.Matching(alpha=1.0, beta=0.5),
]
BUDGETS = [
    sp.budgets.Linear(0.3),
    sp.budgets.Polynomial(0.7),
    sp.budgets.Fixed(100),
    sp.budgets.Late(60, start=50),
    sp.budgets.Periodic(20, every=30),
    sp.budgets.Bernoulli(0.4),
    sp.budgets.Sequence(np.cumsum(np.arange(300) % 3 == 0)),
]


def same(first: sp.Simulation, second: sp.Simulation) -> None:
    """Assert that two simulations went exactly the same way."""
    for name in ("rounds", "regret", "asked", "spent", "budget", "refused", "plays"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=f"{name}: {first.labels}")


def interpreted(module: str) -> Any:
    """What `digest()` of a test module gives with the compiler switched off."""
    code = f"import json; from {module} import digest; print(json.dumps(digest()))"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    root = Path(__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture
def agent() -> sp.Agent:
    """A small agent with some budget."""
    return sp.Agent(sp.UCB1(arms=3), rule=sp.ExactMatching(), budget=30, seed=0)
