"""The lower bound for linear rewards under a budget that grows, which the paper says holds and does not write down."""

from __future__ import annotations

import numpy as np

from sparingly.budgets import Sequence
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Evidence, claim
from sparingly.lab.claims.lower_bounds import JUDGED, judged_on_the_worst
from sparingly.lab.claims.panels import name
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import OFUL, ExactMatching, Never
from sparingly.problems import hard_varying_linear
from sparingly.rules import PaperMatching
from sparingly.theory import lower


@claim(
    "lower/varying-linear",
    "Under a budget B(t) that grows, some linear bandit on [−1, 1]^d costs any policy at least "
    "Σ d/sqrt(B(t))/(80(1+log T)).",
    source="after Proposition 4 (lower bound, linear bandits, varying budget)",
    judged=JUDGED,
    quick={"dim": 2, "early": 2, "late": 4_000, "share": 0.8, "rounds": 60_000, "runs": 90},
    full={"rounds": 200_000, "runs": 400},
)
def varying_linear(runner: Runner, dim: int, early: int, late: int, share: float, rounds: int, runs: int) -> Evidence:
    """A budget that comes late: a few asks at once, many after a share of the rounds."""
    first = int(share * rounds)
    granted = np.where(np.arange(1, rounds + 1) <= first, float(early), float(late))
    family, horizon = hard_varying_linear(dim, granted)
    bar = lower.varying_linear(granted, dim)
    learner = OFUL(dim, noise=1.0, length=float(np.sqrt(dim)), norm=float(np.sqrt(dim / early)))
    policies = [(f"OFUL · {name(rule)}", learner, rule) for rule in (ExactMatching(), PaperMatching(), Never())]
    evidence = judged_on_the_worst(runner, family, policies, learner, Sequence(granted), bar, rounds, runs)
    check = statistics.exact("the horizon that the instances are made for", horizon, "=", first)
    return Evidence((*evidence.checks, check), evidence.panels)
