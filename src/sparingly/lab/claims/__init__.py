"""The claims of the paper and our own, as data that can be run and judged: one file a family, entered into CLAIMS."""

from sparingly.lab.claims import lower  # isort: skip  # the order of these imports is the order of the report
from sparingly.lab.claims import greedy  # isort: skip
from sparingly.lab.claims import arms  # isort: skip
from sparingly.lab.claims import linear  # isort: skip
from sparingly.lab.claims import episodic  # isort: skip
from sparingly.lab.claims import profiles  # isort: skip
from sparingly.lab.claims import remarks  # isort: skip
from sparingly.lab.claims import corrections  # isort: skip
from sparingly.lab.claims import ours  # isort: skip
from sparingly.lab.claims.bench import Bench
from sparingly.lab.claims.evidence import CLAIMS, Check, Claim, Curve, Evidence, Panel, Record

__all__ = [
    "CLAIMS", "Bench", "Check", "Claim", "Curve", "Evidence", "Panel", "Record", "arms", "corrections", "episodic",
    "greedy", "linear", "lower", "ours", "profiles", "remarks",
]  # fmt: skip
