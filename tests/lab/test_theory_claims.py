"""The claims about what the paper leaves out can fail: each turns to "fails" with a policy that is broken on purpose."""

from __future__ import annotations

import pytest

from sparingly.lab.claims import CLAIMS, Runner
from tests.lab.test_mutations import asks_nothing

# claim, what is smaller than in its quick mode, what is broken
BROKEN = [
    ("corrections/e11", {"horizons": (4_000, 32_000, 256_000)}, asks_nothing),
]


@pytest.mark.parametrize(
    ("name", "smaller", "broken"), BROKEN, ids=[f"{name}-{broken.__name__}" for name, _, broken in BROKEN]
)
def test_a_broken_policy_turns_a_claim_to_fails(name, smaller, broken):
    entry = CLAIMS[name]
    assert entry.run(Runner(), **{**entry.quick, **smaller}).verdict != "fails"
    assert entry.run(Runner(change=broken), **{**entry.quick, **smaller}).verdict == "fails"
