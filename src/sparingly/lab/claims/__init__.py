"""The claims of the paper and our own, as data that can be run and judged: one file per topic, listed in CLAIMS."""

from sparingly.lab.claims import lower_bounds  # isort: skip  # the order of these imports is the order of the report
from sparingly.lab.claims import varying_linear  # isort: skip
from sparingly.lab.claims import greedy_reduction  # isort: skip
from sparingly.lab.claims import arms_bounds  # isort: skip
from sparingly.lab.claims import linear_bounds  # isort: skip
from sparingly.lab.claims import episodic_bounds  # isort: skip
from sparingly.lab.claims import budget_profiles  # isort: skip
from sparingly.lab.claims import sizes  # isort: skip
from sparingly.lab.claims import remarks  # isort: skip
from sparingly.lab.claims import lemmas  # isort: skip
from sparingly.lab.claims import along_runs  # isort: skip
from sparingly.lab.claims import corrections  # isort: skip
from sparingly.lab.claims import repairs  # isort: skip
from sparingly.lab.claims import exact_matching  # isort: skip
from sparingly.lab.claims import exact_spends  # isort: skip
from sparingly.lab.claims import balanced_matching  # isort: skip
from sparingly.lab.claims import exact_episodes  # isort: skip
from sparingly.lab.claims import one_model  # isort: skip
from sparingly.lab.claims import costs  # isort: skip
from sparingly.lab.claims.evidence import CLAIMS, Check, Claim, ClaimRecord, Curve, Evidence, Panel
from sparingly.lab.claims.runner import Runner

__all__ = [
    "CLAIMS", "Check", "Claim", "ClaimRecord", "Curve", "Evidence", "Panel", "Runner", "along_runs", "arms_bounds",
    "balanced_matching", "budget_profiles", "corrections", "costs", "episodic_bounds", "exact_episodes",
    "exact_matching", "exact_spends", "greedy_reduction", "lemmas", "linear_bounds", "lower_bounds", "one_model",
    "remarks", "repairs", "sizes", "varying_linear",
]  # fmt: skip
