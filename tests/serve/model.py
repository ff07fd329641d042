"""A model of the service in a hundred lines of plain Python: what each call must answer, without a store.

It shares the learner with the service (an Agent, told what happens in order), and nothing else: budgets, statuses,
retries, leases and times are written here a second time, from what docs/service.md promises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sparingly as sp
from sparingly.reasons import CHOSEN, STEP
from sparingly.serve.explanations import CHOICES, REASONS, SENTENCES

UNIT = 1_000_000


class Refused(Exception):
    """The service must answer with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def stamp(micros: int) -> str:
    """RFC 3339 for the first day of 1970, which is as far as the tests go."""
    seconds, rest = divmod(micros, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    return f"1970-01-{1 + days:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}Z"


@dataclass
class Event:
    """A decision, as the model remembers it."""

    body: dict[str, Any]
    answer: dict[str, Any]
    number: int
    cost: int
    status: str
    due: int | None
    reward: float | None = None
    late: bool = False
    learned: bool = False
    answered: int | None = None


@dataclass
class Model:
    """One agent of the service."""

    name: str
    body: dict[str, Any]  # as it was PUT, with every part that matters
    created: int
    granted: Fraction = Fraction(0)  # initial and grants; growth comes on top
    spent: int = 0
    held: int = 0
    paused: bool = False
    events: dict[str, Event] = field(default_factory=dict)
    booked: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    now: int = 0

    def __post_init__(self) -> None:
        self.granted = Fraction(round(self.body["budget"]["initial"] * UNIT))
        parts = dict(self.body["learner"])
        kind, costs = parts.pop("type"), self.body.get("costs")
        if kind == "OFUL":
            learner: Any = sp.OFUL(**parts, costs=costs)
        else:
            learner = getattr(sp, kind)(len(self.body["actions"]), len(self.body.get("contexts") or [0]), costs=costs)
        rule = dict(self.body["rule"])
        self.agent = sp.Agent(learner, getattr(sp, rule.pop("type"))(**rule), budget=0, seed=self.body.get("seed", 0))

    # The budget.

    def total(self, decisions: int) -> int:
        """B at this moment, in millionths."""
        growth = self.body["budget"]["growth"]
        added = 0
        if growth["by"] == "clock":
            added = math.floor(
                Fraction(round(growth["amount"] * UNIT) * (self.now - self.created), round(growth["every"] * UNIT))
            )
        elif growth["by"] == "decisions":
            added = round(growth["rate"] * UNIT) * decisions
        return int(self.granted) + added

    def budget(self, total: int) -> dict[str, float]:
        spent, held = self.spent, self.held
        return {
            "granted": total / UNIT,
            "spent": spent / UNIT,
            "held": held / UNIT,
            "left": (total - spent - held) / UNIT,
        }

    def cost(self, action: int) -> int:
        return round((self.body.get("costs") or [1.0] * 99)[action] * UNIT)

    # Time.

    def sweep(self, now: int) -> None:
        """Expire and close what is due, as every call about the agent does first."""
        self.now = now
        due = [e for e in self.events.values() if e.due is not None and e.due <= now]
        for event in sorted(due, key=lambda e: (e.due, e.number)):
            if event.status == "held":
                self._refund(event, "expired")
            else:
                event.status, event.due = "unanswered", None

    def closing(self) -> int | None:
        after = self.body["unanswered"]["close_after"]
        return None if after is None else self.now + round(after * UNIT)

    # Calls.

    def decide(self, body: dict[str, Any]) -> dict[str, Any]:
        known = self.events.get(body["event_id"])
        if known is not None:
            if known.body != body:
                raise Refused(409)
            return known.answer
        contexts = self.body.get("contexts")
        context = body.get("features", contexts.index(body["context"]) if contexts else 0)
        total = self.total(len(self.events) + 1)
        self.agent.ledger.grant_to(total / UNIT)
        made = self.agent.decide(context)
        cost, ask = self.cost(made.action), made.ask
        reason = REASONS[made.why % STEP]
        if not ask and self.spent + self.held + cost > total:
            reason = "budget_exhausted"
        if ask and self.paused:
            self.agent.withdraw(made.id)
            ask, reason = False, "paused"
        status, lease, due = "not_asked", None, None
        if ask and body.get("defer"):
            self.held += cost
            status, lease = "held", self.now + round(self.body["lease"] * UNIT)
            due = lease
        elif ask:
            self.spent += cost
            status, due = "open", self.closing()
        actions = self.body.get("actions")
        answer = {
            "agent": self.name, "event_id": body["event_id"], "number": made.id,
            "action": actions[made.action] if actions else made.action, "action_index": made.action, "ask": ask,
            "reason": reason, "width": made.width, "threshold": None if math.isinf(made.threshold) else made.threshold,
            "budget": self.budget(total), "lease_expires_at": None if lease is None else stamp(lease),
            "decided_at": stamp(self.now), "chosen": CHOICES[made.why // STEP],
            "explanation": f"{CHOSEN[made.why // STEP]} {SENTENCES[reason]}",
        }  # fmt: skip
        self.events[body["event_id"]] = Event(body, answer, made.id, cost, status, due)
        return answer

    def event(self, event_id: str) -> Event:
        if event_id not in self.events:
            raise Refused(404)
        return self.events[event_id]

    def feedback(self, event_id: str, reward: float) -> dict[str, Any]:
        event = self.event(event_id)
        if event.status == "answered":
            if event.reward != reward:
                raise Refused(409)
        else:
            if event.status not in ("open", "unanswered"):
                raise Refused(409)
            low, high = self.body["rewards"]["low"], self.body["rewards"]["high"]
            if not low <= reward <= high:
                raise Refused(422)
            event.late = event.status == "unanswered"
            event.learned = not event.late or self.body["unanswered"]["late"] == "learn"
            if event.learned:
                tabular = self.body["learner"]["type"] != "OFUL"
                self.agent.observe(event.number, (reward - low) / (high - low) if tabular else reward)
            event.status, event.due, event.reward, event.answered = "answered", None, reward, self.now
        return {
            "agent": self.name, "event_id": event_id, "reward": event.reward, "late": event.late,
            "learned": event.learned, "answered_at": stamp(event.answered or 0),
        }  # fmt: skip

    def activate(self, event_id: str) -> str:
        event = self.event(event_id)
        if event.answer["lease_expires_at"] is None or event.status not in ("held", "open", "answered", "unanswered"):
            raise Refused(409)
        if event.status == "held":
            self.held -= event.cost
            self.spent += event.cost
            event.status, event.due = "open", self.closing()
        return event.status

    def release(self, event_id: str) -> str:
        event = self.event(event_id)
        if event.status not in ("held", "released", "expired"):
            raise Refused(409)
        if event.status == "held":
            self._refund(event, "released")
        return event.status

    def _refund(self, event: Event, status: str) -> None:
        self.held -= event.cost
        event.status, event.due = status, None
        self.agent.withdraw(event.number)

    def book(self, kind: str, key: str, amount: float) -> dict[str, Any]:
        known = self.booked.get((kind, key))
        if known is not None:
            if known["amount"] != amount:
                raise Refused(409)
            return known
        total = self.total(len(self.events))
        if kind == "grant":
            self.granted += round(amount * UNIT)
            total += round(amount * UNIT)
        elif self.spent + self.held + round(amount * UNIT) > total:
            raise Refused(409)
        else:
            self.spent += round(amount * UNIT)
            self.agent.ledger.grant_to(total / UNIT)
            assert self.agent.ledger.charge(amount)
        answer = {
            "agent": self.name, "id": key, "amount": amount, "budget": self.budget(total), "booked_at": stamp(self.now)
        }  # fmt: skip
        self.booked[kind, key] = answer
        return answer

    def counters(self) -> dict[str, Any]:
        """What GET must show of the agent."""
        counts = {status: sum(e.status == status for e in self.events.values()) for status in STATUSES}
        return {
            "decisions": len(self.events), "paused": self.paused,
            "asks": sum(counts[s] for s in ("open", "held", "answered", "unanswered")), "answers": counts["answered"],
            "open": counts["open"], "held": counts["held"], "unanswered": counts["unanswered"],
            "budget": self.budget(self.total(len(self.events))),
        }  # fmt: skip


STATUSES = ("not_asked", "held", "open", "answered", "unanswered", "released", "expired")
