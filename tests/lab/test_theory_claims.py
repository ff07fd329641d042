"""The claims about what the paper leaves out can fail: each does with a policy that is broken on purpose."""

from __future__ import annotations

import pytest

from sparingly.lab.claims import CLAIMS, Runner
from sparingly.theory import lower
from tests.lab.test_mutations import asks_always, asks_nothing

# claim, what is smaller than in its quick mode, what is broken
BROKEN = [
    ("corrections/e11", {"horizons": (4_000, 32_000, 256_000)}, asks_nothing),
    ("ours/exact-episodes-bound", {"rounds": 500, "episodes": 300}, asks_nothing),
    ("ours/exact-episodes-bound", {"rounds": 500, "episodes": 300}, asks_always),
    ("ours/one-model", {"horizons": (2, 4, 8), "asks": 400}, asks_nothing),
    ("ours/oful-costs", {"hostile": 300}, asks_nothing),
    ("ours/oful-costs", {"hostile": 300}, asks_always),
]


@pytest.mark.parametrize(
    ("name", "smaller", "broken"), BROKEN, ids=[f"{name}-{broken.__name__}" for name, _, broken in BROKEN]
)
def test_a_broken_policy_turns_a_claim_to_fails(name, smaller, broken):
    entry = CLAIMS[name]
    assert entry.run(Runner(), **{**entry.quick, **smaller}).verdict != "fails"
    assert entry.run(Runner(change=broken), **{**entry.quick, **smaller}).verdict == "fails"


def test_a_lower_bound_that_is_too_large_is_noticed(monkeypatch):
    entry, sound = CLAIMS["lower/varying-linear"], lower.varying_linear
    smaller = {**entry.quick, "rounds": 10_000, "runs": 10}
    monkeypatch.setattr(lower, "varying_linear", lambda *args: 5_000 * sound(*args))
    checks = entry.run(Runner(), **smaller).checks
    assert [check.outcome for check in checks if "worst instance" in check.says] == ["refuted"] * 3
