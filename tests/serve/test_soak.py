"""The auditor of the soak notices what it is there for. `make test` runs two minutes of the soak beside the tests."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from sparingly.ledger import UNIT
from tests.serve.crashing import Acknowledged, Faults
from tests.serve.soak import ClockLedger, check_flat, check_growth
from tests.serve.test_crashes import Ledger, check_ledger, check_told

BODY = {"budget": {"initial": 3, "growth": {"rate": 0.0}}}


def decision(seq: int, event: str, ask: bool, spent: float, asks: int, number: int) -> dict[str, Any]:
    return {
        "seq": seq, "kind": "decision", "at": seq, "time": "now", "granted": 3 * UNIT, "spent": round(spent * UNIT),
        "held": 0, "asks": asks, "answers": 0, "event_id": event, "number": number, "cost": UNIT, "ask": int(ask),
        "lease": None, "status": "open" if ask else "not_asked", "action": 0, "reason": "worth_it", "width": 1.0,
        "threshold": None,
    }  # fmt: skip


LOG = [decision(n, f"e{n}", True, n, n, n) for n in (1, 2, 3)]


def acknowledged(record: dict[str, Any]) -> Acknowledged:
    left = (record["granted"] - record["spent"]) / UNIT
    budget = {"granted": 3.0, "spent": record["spent"] / UNIT, "held": 0.0, "left": left}
    answer = {
        "event_id": record["event_id"], "number": record["number"], "action_index": 0, "ask": True,
        "reason": "worth_it", "width": 1.0, "threshold": None, "budget": budget, "decided_at": "now",
    }  # fmt: skip
    body = {"event_id": record["event_id"]}
    return Acknowledged("/v1/agents/one/decisions", body, 200, json.dumps(answer).encode())


def audit(log: list[dict[str, Any]]) -> None:
    check_told([acknowledged(record) for record in LOG], log, check_ledger(BODY, log))


CHANGES: dict[str, Any] = {
    "a lost write": lambda log: log.pop(),
    "a write in the middle that is gone": lambda log: log.pop(1),
    "a changed answer": lambda log: log[1].update(action=1),
    "an ask that costs nothing": lambda log: log[2].update(spent=2 * UNIT),
    "an ask too many": lambda log: log.append(decision(4, "e4", True, 4, 4, 4)),
    "a decision that nobody wanted": lambda log: log.append(decision(4, "e4", False, 3, 3, 4)),
    "a budget from nowhere": lambda log: log[2].update(granted=4 * UNIT),
    "time that runs backwards": lambda log: log[2].update(at=1),
}


def test_a_sound_log_passes():
    audit(LOG)


@pytest.mark.parametrize("change", CHANGES)
def test_the_auditor_notices(change):
    log = copy.deepcopy(LOG)
    CHANGES[change](log)
    with pytest.raises((AssertionError, KeyError)):
        audit(log)


def test_growth_and_memory():
    check_growth(2 * UNIT + 2 * UNIT * 100, elapsed=90.0)
    with pytest.raises(AssertionError, match="were granted"):
        check_growth(2 * UNIT + 2 * UNIT * 86_400, elapsed=90.0)
    size = 200 * 2**20
    check_flat([(float(n), size + n * 1_000) for n in range(90)])
    with pytest.raises(AssertionError, match="memory grew"):
        check_flat([(float(n), size + n * 2**23) for n in range(90)])
    falling = ClockLedger()
    falling.grown = 5
    with pytest.raises(AssertionError, match="fell"):
        falling.enter({"granted": 4})
    assert Ledger(BODY).granted == 3 * UNIT


def test_faults_are_shared_between_processes(tmp_path):
    """Two handles on one file see the same numbers, as the processes of a nursery do."""
    first, second = Faults(tmp_path / "faults"), Faults(tmp_path / "faults")
    first.set(ahead=3.5, full=1.0)
    assert (second.get("ahead"), second.get("slow"), second.get("full")) == (3.5, 0.0, 1.0)
    second.clear()
    assert first.get("ahead") == 0.0
