"""One agent at work: turns what callers want into records of its log, and lives through records made elsewhere.

A desk changes nothing outside of itself. Its changes are taken from it and stored in one transaction; if that fails the
desk is thrown away and made again from the store. What it does live and what it does from the log is the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET

from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.ledger import GRANTED, SPENT, UNIT
from sparingly.saving import dumps, loads
from sparingly.serve.contract import OFUL, AgentBody, DecisionBody
from sparingly.serve.making import MICRO, MOST, cost_units_of, grown, make_agent, units_of
from sparingly.serve.problems import Conflict, Missing, Unfit
from sparingly.serve.rows import AgentRow, DecisionRow, EntryRow

ASKED = ("open", "answered", "unanswered")  # statuses of asks that someone has seen


@dataclass
class Changes:
    """What a desk has done since the last time: to be stored in one transaction."""

    before: AgentRow  # the counters that it started from
    after: AgentRow
    made: list[DecisionRow]
    changed: list[DecisionRow]
    entries: list[EntryRow]


@dataclass
class Desk:
    """An agent, its counters, and what has happened since they were last stored."""

    row: AgentRow
    body: AgentBody
    agent: Agent
    folded: int = 0  # the last record that the agent has lived through
    kept: int = 0  # the record of the last snapshot
    next_due: int | None = None  # when the next ask expires or closes
    latest: Any = None  # the features of the latest decision, for the estimates of linear agents
    now: int = 0
    _before: AgentRow | None = None
    _made: dict[str, DecisionRow] = field(default_factory=dict)
    _changed: dict[str, DecisionRow] = field(default_factory=dict)
    _entries: list[EntryRow] = field(default_factory=list)
    _bookings: dict[tuple[str, str], EntryRow] = field(default_factory=dict)
    _found: dict[str, DecisionRow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {name: place for place, name in enumerate(self.body.contexts or [])}

    @classmethod
    def of(cls, row: AgentRow, snapshot: tuple[int, str] | None = None) -> Desk:
        """A desk for a stored agent, as far as the snapshot; `fold` brings it up to date."""
        body = msgspec.json.decode(row.body, type=AgentBody)
        if snapshot is None:
            return cls(row, body, make_agent(body))
        seq, text = snapshot
        return cls(row, body, loads(text, name=f"the snapshot of agent {row.name}"), folded=seq, kept=seq)

    # A batch: begin, work, take the changes.

    def begin(self, row: AgentRow, now: int) -> None:
        """Start a batch from the counters that the store has; the clock never goes back."""
        assert row.seq == self.folded, "the desk has not lived through the whole log"
        self.row, self.now = row, max(now, row.last_at)
        self._before = dataclasses.replace(row)
        self._made, self._changed, self._entries, self._bookings, self._found = {}, {}, [], {}, {}

    def knows(self, decisions: Iterable[DecisionRow], bookings: Iterable[EntryRow]) -> None:
        """What the store has of the ids that this batch is about."""
        # What has expired at the beginning of this batch is not stored yet: the row in hand is the newer one.
        self._found.update((row.event_id, self._changed.get(row.event_id, row)) for row in decisions)
        self._bookings.update(((row.kind, row.key), row) for row in bookings)

    def changes(self) -> Changes | None:
        """What has to be stored, if anything."""
        assert self._before is not None
        if self.row.seq == self._before.seq:
            return None
        changed = [row for event_id, row in self._changed.items() if event_id not in self._made]
        return Changes(self._before, self.row, list(self._made.values()), changed, self._entries)

    def find(self, event_id: str) -> DecisionRow:
        """A decision of this batch or of the store."""
        row = self._made.get(event_id) or self._found.get(event_id)
        if row is None:
            raise Missing(f"agent {self.row.name} has made no decision with the event_id {event_id}")
        return row

    # What callers want.

    def decide(self, wanted: DecisionBody, event_id: str | None = None) -> DecisionRow:
        """Make a decision, or find the one that was made for this event_id."""
        context, stored = self._context(wanted)
        payload, print_ = _payload(wanted.payload), fingerprint(stored, wanted)
        if event_id is not None:
            known = self._made.get(event_id) or self._found.get(event_id)
            if known is not None:
                if known.fingerprint != print_:
                    raise Conflict(f"the event_id {event_id} was used before for another decision; choose a new one")
                return known
        granted, accrued = self._grown(self.row.decisions + 1)
        self.agent.ledger.account[GRANTED] = granted
        try:
            decision = self.agent.decide(context)
        except InvalidInput as error:
            raise Unfit(str(error)) from None
        self.row.granted, self.row.accrued = granted, accrued
        self.row.decisions += 1
        self.latest = context
        cost, ask = self._cost(decision.action), decision.ask
        reason = "width_reaches_threshold" if ask else "below_threshold"
        if not ask and self.row.spent + self.row.held + cost > granted:
            reason = "budget_exhausted"
        if ask and self.row.paused:
            self.agent.withdraw(decision.id)
            ask, reason = False, "paused"
        status, lease, due = self._open(cost, wanted.defer) if ask else ("not_asked", None, None)
        row = DecisionRow(
            *self._counters(), event_id or f"{self.now:x}-{secrets.token_hex(8)}", decision.id, print_, stored, payload,
            decision.action, int(ask), reason, decision.width,
            None if math.isinf(decision.threshold) else decision.threshold, cost, lease, status, due,
        )  # fmt: skip
        self._made[row.event_id] = row
        return row

    def _open(self, cost: int, defer: bool) -> tuple[str, int | None, int | None]:
        """Charge an ask, or hold it: its status, when the lease expires, and when it is due."""
        self.row.asks += 1
        if defer:
            self.row.held += cost
            self.row.held_asks += 1
            lease = self.now + round(self.body.lease * MICRO)
            self.expect(lease)
            return "held", lease, lease
        self.row.spent += cost
        self.row.open_asks += 1
        return "open", None, self._closing()

    def _closing(self) -> int | None:
        """When an ask that is opened now will be closed."""
        after = self.body.unanswered.close_after
        if after is None:
            return None
        due = self.now + round(after * MICRO)
        self.expect(due)
        return due

    def expect(self, due: int) -> None:
        """An ask will be due then."""
        self.next_due = due if self.next_due is None else min(due, self.next_due)

    def answer(self, event_id: str, reward: float) -> DecisionRow:
        """Take in what the action of a decision was worth."""
        row = self.find(event_id)
        if row.status == "answered":
            if row.reward != reward:
                raise Conflict(f"{event_id} was answered before with {row.reward:g}; an answer cannot be changed")
            return row
        if row.status not in ASKED:
            raise Conflict(f"{event_id} awaits no answer: it is {row.status.replace('_', ' ')}")
        self._check_reward(reward)
        row.late = int(row.status == "unanswered")
        row.learned = int(not row.late or self.body.unanswered.late == "learn")
        if row.learned:
            self.agent.observe(row.number, self._scaled(reward))
        self.row.open_asks -= not row.late
        self.row.answers += 1
        row.status, row.due, row.reward, row.answered = "answered", None, reward, self.now
        self._enter("feedback", row.event_id, row.number, reward=reward, learned=row.learned)
        return self._touch(row)

    def activate(self, event_id: str) -> DecisionRow:
        """A held ask is shown to someone: it is spent."""
        row = self.find(event_id)
        if row.lease is not None and row.status in ASKED:
            return row
        if row.status != "held":
            raise Conflict(f"{event_id} cannot be activated: it is {row.status.replace('_', ' ')}")
        self._unhold(row.cost)
        self.row.spent += row.cost
        self.row.open_asks += 1
        row.status, row.due = "open", self._closing()
        self._enter("activate", row.event_id, row.number, amount=row.cost)
        return self._touch(row)

    def release(self, event_id: str) -> DecisionRow:
        """A held ask is withdrawn unseen: it is refunded."""
        row = self.find(event_id)
        if row.status in ("released", "expired"):
            return row
        if row.status != "held":
            raise Conflict(f"{event_id} cannot be released: it is {row.status.replace('_', ' ')}")
        return self._refund(row, "release", "released")

    def _refund(self, row: DecisionRow, kind: str, status: str) -> DecisionRow:
        self._unhold(row.cost)
        self.row.asks -= 1
        self.agent.withdraw(row.number)
        row.status, row.due = status, None
        self._enter(kind, row.event_id, row.number, amount=row.cost)
        return self._touch(row)

    def _unhold(self, cost: int) -> None:
        self.row.held -= cost
        self.row.held_asks -= 1

    def sweep(self, due: Iterable[DecisionRow]) -> None:
        """Expire and close the asks whose time has come, `due` in the order of their times."""
        for row in due:
            if row.status == "held":
                self._refund(row, "expire", "expired")
            else:
                self.row.open_asks -= 1
                row.status, row.due = "unanswered", None
                self._enter("close", row.event_id, row.number)
                self._touch(row)

    def grant(self, grant_id: str, amount: float) -> EntryRow:
        """Add to the budget, once for each grant_id."""
        units = units_of(amount)
        known = self._booked("grant", grant_id, units)
        if known is not None:
            return known
        granted, accrued = self._grown(self.row.decisions)
        if granted + units > MOST:
            raise Unfit(f"the budget would exceed {MOST / UNIT:g}")
        self.row.granted, self.row.accrued = granted + units, accrued
        return self._enter("grant", grant_id, amount=units)

    def charge(self, charge_id: str, amount: float) -> EntryRow:
        """Count asks as spent that are not in the log, once for each charge_id."""
        units = -units_of(-amount)  # rounded up, as costs are
        known = self._booked("charge", charge_id, units)
        if known is not None:
            return known
        granted, accrued = self._grown(self.row.decisions)
        left = granted - self.row.spent - self.row.held
        if units > left:
            raise Conflict(f"{amount:g} cannot be charged: only {left / UNIT:g} is left; grant the difference first")
        self.row.granted, self.row.accrued = granted, accrued
        self.row.spent += units
        self.agent.ledger.account[SPENT] += units
        return self._enter("charge", charge_id, amount=units)

    def _booked(self, kind: str, key: str, units: int) -> EntryRow | None:
        known = self._bookings.get((kind, key))
        if known is not None and known.amount != units:
            raise Conflict(f"the {kind}_id {key} was used before for {known.amount / UNIT:g}; choose a new one")
        return known

    def pause(self, paused: bool) -> None:
        """Ask nothing until resumed."""
        if bool(self.row.paused) != paused:
            self.row.paused = int(paused)
            self._enter("pause" if paused else "resume", "")

    # Records.

    def _counters(self) -> tuple[int, int, int, int, int, int, int, int]:
        """The beginning of the next record: its place, and the counters as they are now."""
        row = self.row
        row.seq += 1
        row.last_at = self.now
        self.folded = row.seq
        self.agent.ledger.account[GRANTED] = row.granted
        return row.id, row.seq, self.now, row.granted, row.spent, row.held, row.asks, row.answers

    def _enter(
        self, kind: str, key: str, number: int = 0, amount: int = 0, reward: float | None = None, learned: int = 0
    ) -> EntryRow:
        row = EntryRow(*self._counters(), kind, key, number, amount, reward, learned)
        self._entries.append(row)
        if kind in ("grant", "charge"):
            self._bookings[kind, key] = row
        return row

    def _touch(self, row: DecisionRow) -> DecisionRow:
        self._changed[row.event_id] = row
        return row

    def fold(self, records: Iterable[DecisionRow | EntryRow]) -> None:
        """Live through records that were made elsewhere, or before a restart."""
        for record in records:
            self.agent.ledger.account[GRANTED] = record.granted
            assert record.seq == self.folded + 1, f"record {self.folded + 1} is missing in the log of {self.row.name}"
            if isinstance(record, DecisionRow):
                self._fold_decision(record)
            else:
                self._fold_entry(record)
            self.folded = record.seq

    def _fold_decision(self, row: DecisionRow) -> None:
        self.latest = json.loads(row.context)
        # A paused agent made its ask and took it back at once.
        was_asked = bool(row.ask) or row.reason == "paused"
        decision = self.agent.replay(self.latest, row.action, was_asked)
        assert decision.id == row.number, f"decision {row.number} of {self.row.name} is out of its order"
        if row.reason == "paused":
            self.agent.withdraw(decision.id)
        if row.due is not None:
            self.expect(row.due)

    def _fold_entry(self, row: EntryRow) -> None:
        if row.kind == "feedback" and row.learned:
            assert row.reward is not None
            self.agent.observe(row.number, self._scaled(row.reward))
        elif row.kind in ("release", "expire"):
            self.agent.withdraw(row.number)
        elif row.kind == "charge":
            self.agent.ledger.account[SPENT] += row.amount
        elif row.kind == "activate" and self.body.unanswered.close_after is not None:
            self.expect(row.at + round(self.body.unanswered.close_after * MICRO))

    def look_back(self, context: str | None) -> None:
        """The context of the latest decision, for a desk that was made from a snapshot."""
        if context is not None:
            self.latest = json.loads(context)

    def snapshot(self) -> str:
        """All that the agent has learned, as text. If it should be of no use, there is the log."""
        return dumps(self.agent, check=False)

    # Budgets, contexts, rewards.

    def _grown(self, decisions: int) -> tuple[int, int]:
        """What is granted by now, and how much of it by growth, if this is decision number `decisions`."""
        return grown(self.row, self.body, self.now, decisions)

    def _context(self, wanted: DecisionBody) -> tuple[Any, str]:
        """The context as the agent takes it, and as it is stored."""
        if isinstance(self.body.learner, OFUL):
            if wanted.features is UNSET or wanted.context is not UNSET:
                raise Unfit("this agent decides by `features`, a row of numbers for each action, and no `context`")
            actions = self.body.actions
            if actions is not None and len(wanted.features) != len(actions):
                raise Unfit(f"features have {len(wanted.features)} rows, but there are {len(actions)} actions")
            if len({len(row) for row in wanted.features}) > 1:
                raise Unfit("all rows of the features must have the same length")
            return wanted.features, msgspec.json.encode(wanted.features).decode()
        if wanted.features is not UNSET:
            raise Unfit("this agent takes no `features`; a learner of type OFUL does")
        index = self.context_index(None if wanted.context is UNSET else wanted.context)
        return index, str(index)

    def context_index(self, context: str | int | None) -> int:
        """The number of a context, given by name or by number."""
        names = self.body.contexts
        if names is None:
            if context is not None and context != 0:
                raise Unfit(f"this agent has no contexts; {context!r} was given")
            return 0
        if isinstance(context, int) and context < len(names):
            return context
        if isinstance(context, str) and context in self._places:
            return self._places[context]
        few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise Unfit(f"context must be one of {few}, or a number in 0 … {len(names) - 1}; not {context!r}")

    def action_name(self, action: int) -> str | int:
        """The name of an action, or its number if it has none."""
        return action if self.body.actions is None else self.body.actions[action]

    def _cost(self, action: int) -> int:
        costs = self.body.costs
        return UNIT if costs is None else cost_units_of(costs[action])

    def _check_reward(self, reward: float) -> None:
        low, high = self.body.rewards.low, self.body.rewards.high
        if not low <= reward <= high:
            raise Unfit(f"the reward must lie in {low:g} … {high:g}, not {reward:g}")

    def _scaled(self, reward: float) -> float:
        """Tabular learners take rewards in [0, 1]; linear ones take them as they are."""
        if isinstance(self.body.learner, OFUL):
            return reward
        low, high = self.body.rewards.low, self.body.rewards.high
        return min(max((reward - low) / (high - low), 0.0), 1.0)


def _payload(payload: Any) -> str | None:
    return None if payload is UNSET else _text(payload)


def _text(payload: Any, **options: Any) -> str:
    """JSON in UTF-8; msgspec is quick, but does not write whole numbers beyond 64 bits."""
    try:
        return msgspec.json.encode(payload, **options).decode()
    except OverflowError:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys="order" in options)


def fingerprint(context: str, wanted: DecisionBody) -> str:
    """What makes a request this request: the context, the payload and whether it is deferred."""
    if wanted.payload is UNSET and len(context) < 30:
        return f"{context}d" if wanted.defer else context  # short enough to be its own
    payload = "" if wanted.payload is UNSET else _text(wanted.payload, order="sorted")
    return hashlib.sha256(f"{context}\n{wanted.defer}\n{payload}".encode()).hexdigest()[:32]
