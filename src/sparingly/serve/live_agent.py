"""An agent in memory: turns requests into records of its log, and applies records that were written elsewhere.

A LiveAgent changes nothing but itself. The writer takes its changes and stores them in one transaction; if that fails,
the LiveAgent is dropped and loaded again from the store. Replaying the log gives exactly the same state as the live
calls that wrote it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.ledger import UNIT
from sparingly.saving import dumps, loads
from sparingly.serve import chain
from sparingly.serve.changes import Change, Roster, carry_out, roster
from sparingly.serve.contract import AgentBody, ChangeBody, DecisionBody, FeedbackBody
from sparingly.serve.explanations import reason_of
from sparingly.serve.explanations import stored as stored_reason
from sparingly.serve.factory import MICRO, MOST, cost_units_of, granted_by_now, make_agent, units_of
from sparingly.serve.http_errors import Conflict, Damaged, NotFound, Unprocessable
from sparingly.serve.records import About, AgentRecord, DecisionRecord, EntryRecord

Record = TypeVar("Record", DecisionRecord, EntryRecord)
SEEN = ("open", "answered", "unanswered")  # statuses of asks that someone has seen


@dataclass
class Changes:
    """What a LiveAgent has done in a batch, to be stored in one transaction."""

    before: AgentRecord  # the counters at the start of the batch
    after: AgentRecord
    new: list[DecisionRecord]
    changed: list[DecisionRecord]
    entries: list[EntryRecord]
    erased: list[DecisionRecord] = field(default_factory=list)  # decisions whose payload goes


@dataclass
class LiveAgent:
    """An agent with its counters, and what has changed since they were last stored."""

    record: AgentRecord
    body: AgentBody
    agent: Agent
    applied: int = 0  # seq of the last record that the agent has applied
    chain: bytes | None = None  # its checksum; None: not known yet
    who: str = ""  # who wants what is recorded next
    used: float = 0.0  # when a command last needed it, by the monotonic clock
    snapshot_seq: int = 0  # seq of the record that the last snapshot was taken after
    next_due: int | None = None  # when the next ask expires or closes
    latest_context: Any = None  # of the last decision; for the estimates of linear agents
    now: int = 0  # the time of new records; never before that of the last one
    clock: int = 0  # the trusted time, by which budgets grow and asks become due
    _before: AgentRecord | None = None
    _new: dict[str, DecisionRecord] = field(default_factory=dict)
    _changed: dict[str, DecisionRecord] = field(default_factory=dict)
    _entries: list[EntryRecord] = field(default_factory=list)
    _erased: list[DecisionRecord] = field(default_factory=list)
    _bookings: dict[tuple[str, str], EntryRecord] = field(default_factory=dict)
    _found: dict[str, DecisionRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._name(roster(self.record))

    def _name(self, known: Roster) -> None:
        """What the agent chooses from, by name."""
        self.roster, self.body = known, known.body
        self._context_indices = {name: place for place, name in enumerate(self.body.contexts or [])}

    @classmethod
    def load(cls, record: AgentRecord, snapshot: tuple[int, str] | None = None) -> LiveAgent:
        """Load a stored agent as of the snapshot, or as it was created; `apply` brings it up to date."""
        known = roster(record)
        body = known.body
        if snapshot is None:
            return cls(record, body, make_agent(known.first), chain=chain.start(record.name, record.created))
        seq, text = snapshot
        agent = loads(text, name=f"the snapshot of agent {record.name}")
        for number in agent.awaited:  # releases up to 0.1.0 kept in it what the store has
            agent.set_aside(number)
        return cls(record, body, agent, applied=seq, snapshot_seq=seq)

    # A batch: begin, handle requests, collect the changes.

    def begin(self, record: AgentRecord, now: int) -> None:
        """Start a batch from the stored counters. The times of records never go backwards."""
        assert record.seq == self.applied, "some records of the log have not been applied"
        if self.chain not in (None, record.chain):
            raise Damaged(record.name)
        self.chain = record.chain
        if record.body != self.record.body:
            self._name(roster(record))
        self.record, self.now, self.clock = record, max(now, record.last_at), now
        self._before = dataclasses.replace(record)
        self._new, self._changed, self._entries, self._bookings, self._found = {}, {}, [], {}, {}
        self._erased = []

    def add_found(self, decisions: Iterable[DecisionRecord], bookings: Iterable[EntryRecord]) -> None:
        """Take in what the store has under the ids of this batch."""
        # An ask that expired at the start of this batch is not stored yet, so the record in memory is newer.
        self._found.update((record.event_id, self._changed.get(record.event_id, record)) for record in decisions)
        self._bookings.update(((record.kind, record.key), record) for record in bookings)

    def changes(self) -> Changes | None:
        """The changes to store, or None."""
        assert self._before is not None
        if self.record.seq == self._before.seq:
            return None
        changed = [record for event_id, record in self._changed.items() if event_id not in self._new]
        return Changes(self._before, self.record, list(self._new.values()), changed, self._entries, self._erased)

    def find(self, event_id: str) -> DecisionRecord:
        """A decision from this batch or from the store."""
        record = self._new.get(event_id) or self._found.get(event_id)
        if record is None:
            raise NotFound(f"agent {self.record.name} has made no decision with the event_id {event_id}")
        return record

    # Requests.

    def decide(self, wanted: DecisionBody, event_id: str | None = None) -> DecisionRecord:
        """Make a decision, or return the one that was made for this event_id."""
        context, stored = self._context(wanted)
        payload, digest = _payload(wanted.payload), fingerprint(stored, wanted)
        if event_id is not None:
            known = self._new.get(event_id) or self._found.get(event_id)
            if known is not None:
                if known.fingerprint != digest:
                    raise Conflict(f"the event_id {event_id} was used before for another decision; choose a new one")
                return known
        self._check_offer(context)
        granted, accrued = self._granted_by_now(self.record.decisions + 1)
        self.agent.ledger.granted_units = granted
        try:
            decision = self.agent.decide(context)
        except InvalidInput as error:
            raise Unprocessable(str(error)) from None
        self.record.granted, self.record.accrued = granted, accrued
        self.record.decisions += 1
        self.latest_context = context
        cost, ask = self._cost(decision.action), decision.ask
        instead = None
        if not ask and self.record.spent + self.record.held + cost > granted:
            instead = "budget_exhausted"
        if ask and self.record.paused:
            self.agent.withdraw(decision.id)
            ask, instead = False, "paused"
        reason = stored_reason(decision.why, instead)
        status, lease, due = self._charge_or_hold(cost, wanted.defer) if ask else ("not_asked", None, None)
        event_id = event_id or f"{self.now:x}-{secrets.token_hex(8)}"
        record = DecisionRecord(
            *self._next_counters(), event_id, decision.id, digest, stored, payload, decision.action, int(ask), reason,
            decision.width, None if math.isinf(decision.threshold) else decision.threshold, cost, lease, status, due,
            who=self.who,
        )  # fmt: skip
        if ask:
            note = self.agent.set_aside(decision.id)
            needed = status == "held" or getattr(self.agent.learner, "forget", 0.0) > 0.0  # a late answer has an age
            record.gain = note if needed and note else None
        self._new[record.event_id] = self._sealed(record)
        return record

    def _check_offer(self, context: Any) -> None:
        """Refuse a new decision about what there is not any more, or not yet. Retries of old ones get their answer."""
        actions = self.body.actions
        if self.body.linear:
            if actions is not None and not self.body.shares_input and len(context) != len(actions):
                raise Unprocessable(f"features have {len(context)} rows, but there are {len(actions)} actions")
        elif context in self.roster.retired_contexts:
            name = (self.body.contexts or [])[context]
            raise Unprocessable(f"the context {name!r} was retired; PATCH the agent with add_contexts to bring it back")

    def _sealed(self, record: Record) -> Record:
        """A new record with its checksum, which is the agent's now too."""
        assert self.chain is not None
        record.chain = self.chain = self.record.chain = chain.link(self.chain, record)
        return record

    def _expect(self, record: DecisionRecord) -> None:
        """Give the agent back what was set aside: the ask is answered, or withdrawn."""
        self.agent.expect(record.number, *about(record.context, record.action, record.gain))

    def _charge_or_hold(self, cost: int, defer: bool) -> tuple[str, int | None, int | None]:
        """Charge an ask, or hold it; returns its status, when its lease expires, and when it is due."""
        self.record.asks += 1
        if defer:
            self.record.held += cost
            self.record.held_asks += 1
            lease = self.clock + round(self.body.lease * MICRO)
            self.expect(lease)
            return "held", lease, lease
        self.record.spent += cost
        self.record.open_asks += 1
        return "open", None, self._closing_time()

    def _closing_time(self) -> int | None:
        """When an ask that opens now will close, or None."""
        after = self.body.unanswered.close_after
        if after is None:
            return None
        due = self.clock + round(after * MICRO)
        self.expect(due)
        return due

    def expect(self, due: int) -> None:
        """Note that an ask becomes due at this time."""
        self.next_due = due if self.next_due is None else min(due, self.next_due)

    def answer(self, event_id: str, told: FeedbackBody) -> DecisionRecord:
        """Record what an answer says: the reward of the action, or the action that is right."""
        if (told.reward is UNSET) == (told.label is UNSET):
            raise Unprocessable("give either the `reward` of the action, or the `label`: the action that is right")
        if isinstance(told.reward, float):
            return self.observe(event_id, told.reward + 0.0)
        assert not isinstance(told.label, UnsetType)
        if self.body.linear and not self.body.shares_input:
            kind = type(self.body.learner).__name__
            raise Unprocessable(f"with {kind} an answer tells of one action: give its `reward`, not a `label`")
        right, scale = self._action_index(told.label), self.body.rewards
        return self.observe(event_id, scale.high if right == self.find(event_id).action else scale.low, right)

    def _action_index(self, label: str | int) -> int:
        """The number of an action that is named, or given by its number."""
        names = self.body.actions or []
        if label in names:
            return names.index(label)
        if isinstance(label, int) and label < len(names):
            return label
        raise Unprocessable(f"label must be one of the actions, or a number in 0 … {len(names) - 1}; not {label!r}")

    def observe(self, event_id: str, reward: float, right: int | None = None) -> DecisionRecord:
        """Record the reward of a decision, and learn from it; if it is known which action is right, from that."""
        record = self.find(event_id)
        if record.status == "answered":
            if record.reward != reward:
                raise Conflict(f"{event_id} was answered before with {record.reward:g}; an answer cannot be changed")
            return record
        if record.status not in SEEN:
            raise Conflict(f"{event_id} awaits no answer: it is {record.status.replace('_', ' ')}")
        self._check_reward(reward)
        record.late = int(record.status == "unanswered")
        record.learned = int(not record.late or self.body.unanswered.late == "learn")
        if record.learned:
            self._expect(record)
            self._learn(record.number, reward, right)
        self.record.open_asks -= not record.late
        self.record.answers += 1
        record.status, record.due, record.reward, record.answered = "answered", None, reward, self.now
        label = 0 if right is None else right + 1
        self._add_entry("feedback", record.event_id, record.number, label, reward=reward, learned=record.learned)
        return self._mark_changed(record)

    def _learn(self, number: int, reward: float, right: int | None) -> None:
        if right is None:
            self.agent.observe(number, self._scaled(reward))
        else:
            self.agent.observe(number, label=right)

    def activate(self, event_id: str) -> DecisionRecord:
        """Spend a held ask: it is shown to someone now."""
        record = self.find(event_id)
        if record.lease is not None and record.status in SEEN:
            return record
        if record.status != "held":
            raise Conflict(f"{event_id} cannot be activated: it is {record.status.replace('_', ' ')}")
        self._end_hold(record.cost)
        self.record.spent += record.cost
        self.record.open_asks += 1
        record.status, record.due = "open", self._closing_time()
        self._add_entry("activate", record.event_id, record.number, amount=record.cost)
        return self._mark_changed(record)

    def release(self, event_id: str) -> DecisionRecord:
        """Refund a held ask: nobody has seen it."""
        record = self.find(event_id)
        if record.status in ("released", "expired"):
            return record
        if record.status != "held":
            raise Conflict(f"{event_id} cannot be released: it is {record.status.replace('_', ' ')}")
        return self._refund(record, "release", "released")

    def _refund(self, record: DecisionRecord, kind: str, status: str) -> DecisionRecord:
        self._end_hold(record.cost)
        self.record.asks -= 1
        self._expect(record)
        self.agent.withdraw(record.number)
        record.status, record.due = status, None
        self._add_entry(kind, record.event_id, record.number, amount=record.cost)
        return self._mark_changed(record)

    def _end_hold(self, cost: int) -> None:
        self.record.held -= cost
        self.record.held_asks -= 1

    def sweep(self, due: Iterable[DecisionRecord]) -> None:
        """Expire or close these asks, which are due; they come in the order of their due times."""
        for record in due:
            if record.status == "held":
                self._refund(record, "expire", "expired")
            else:
                self.record.open_asks -= 1
                record.status, record.due = "unanswered", None
                self._add_entry("close", record.event_id, record.number)
                self._mark_changed(record)

    def grant(self, grant_id: str, amount: float) -> EntryRecord:
        """Add to the budget, once for each grant_id."""
        units = units_of(amount)
        known = self._known_booking("grant", grant_id, units)
        if known is not None:
            return known
        granted, accrued = self._granted_by_now(self.record.decisions)
        if granted + units > MOST:
            raise Unprocessable(f"the budget would exceed {MOST / UNIT:g}")
        self.record.granted, self.record.accrued = granted + units, accrued
        return self._add_entry("grant", grant_id, amount=units)

    def charge(self, charge_id: str, amount: float) -> EntryRecord:
        """Spend budget for asks that are not in the log, once for each charge_id."""
        units = -units_of(-amount)  # rounded up, as costs are
        known = self._known_booking("charge", charge_id, units)
        if known is not None:
            return known
        granted, accrued = self._granted_by_now(self.record.decisions)
        left = granted - self.record.spent - self.record.held
        if units > left:
            raise Conflict(f"{amount:g} cannot be charged: only {left / UNIT:g} is left; grant the difference first")
        self.record.granted, self.record.accrued = granted, accrued
        self.record.spent += units
        self.agent.ledger.spent_units += units
        return self._add_entry("charge", charge_id, amount=units)

    def _known_booking(self, kind: str, key: str, units: int) -> EntryRecord | None:
        known = self._bookings.get((kind, key))
        if known is not None and known.amount != units:
            raise Conflict(f"the {kind}_id {key} was used before for {known.amount / UNIT:g}; choose a new one")
        return known

    def change(self, wanted: ChangeBody) -> None:
        """Change what the agent chooses from, its rule or its budget, as far as it is not so already."""
        change = Change(self.roster, wanted)
        granted, accrued = self._granted_by_now(self.record.decisions)
        more = 0 if wanted.granted is None else max(units_of(wanted.granted) - granted, 0)
        if not change.steps and not more:
            return
        self.record.granted, self.record.accrued = granted + more, accrued
        self.agent.ledger.granted_units = self.record.granted
        carry_out(self.agent, change.steps)
        self.record.body = change.roster.text()
        self._name(change.roster)
        self._add_entry("change", msgspec.json.encode(change.steps).decode(), amount=more)

    def pause(self, paused: bool) -> None:
        """Stop asking, or start again."""
        if bool(self.record.paused) != paused:
            self.record.paused = int(paused)
            self._add_entry("pause" if paused else "resume", "")

    def erase(self, event_id: str) -> DecisionRecord:
        """Erase the payload of a decision. All else stays: the log goes on to prove what was decided and spent."""
        record = self.find(event_id)
        if record.payload is not None:
            record.payload = None
            self._erased.append(record)
            self._add_entry("erase", event_id, record.number)
        return record

    def note_erased(self, seq: int, number: int, any_payload: bool) -> None:
        """The payloads of all decisions up to this record and number are past their time, and erased."""
        self.record.erased = seq
        if any_payload:
            self._add_entry("erase", "", number)

    # The log.

    def _next_counters(self) -> tuple[int, int, int, int, int, int, int, int]:
        """The first fields of the next record: its position in the log, and the counters as they are now."""
        record = self.record
        record.seq += 1
        record.last_at = self.now
        self.applied = record.seq
        self.agent.ledger.granted_units = record.granted
        return record.id, record.seq, self.now, record.granted, record.spent, record.held, record.asks, record.answers

    def _add_entry(
        self, kind: str, key: str, number: int = 0, amount: int = 0, reward: float | None = None, learned: int = 0
    ) -> EntryRecord:
        record = EntryRecord(*self._next_counters(), kind, key, number, amount, reward, learned, self.who)
        self._entries.append(self._sealed(record))
        if kind in ("grant", "charge"):
            self._bookings[kind, key] = record
        return record

    def _mark_changed(self, record: DecisionRecord) -> DecisionRecord:
        self._changed[record.event_id] = record
        return record

    def apply(self, records: Iterable[DecisionRecord | EntryRecord]) -> None:
        """Apply records that another process wrote, or this one before a restart."""
        for record in records:
            if record.seq != self.applied + 1 or (self.chain and chain.link(self.chain, record) != record.chain):
                raise Damaged(self.record.name)
            self.agent.ledger.granted_units = record.granted
            if isinstance(record, DecisionRecord):
                self._apply_decision(record)
            else:
                self._apply_entry(record)
            self.applied, self.chain = record.seq, record.chain

    def _apply_decision(self, record: DecisionRecord) -> None:
        self.latest_context = json.loads(record.context)
        # A paused agent asked, and withdrew the ask at once.
        was_asked = bool(record.ask) or reason_of(record.reason) == "paused"
        decision = self.agent.replay(self.latest_context, record.action, was_asked)
        assert decision.id == record.number, f"decision {record.number} of {self.record.name} is out of its order"
        if reason_of(record.reason) == "paused":
            self.agent.withdraw(decision.id)
        elif record.ask:
            self.agent.set_aside(decision.id)
        if record.due is not None:
            self.expect(record.due)

    def _apply_entry(self, record: EntryRecord) -> None:
        if record.kind == "feedback" and record.learned:
            assert record.reward is not None and record.about is not None
            self.agent.expect(record.number, *record.about)
            self._learn(record.number, record.reward, record.amount - 1 if record.amount else None)
        elif record.kind in ("release", "expire"):
            assert record.about is not None
            self.agent.expect(record.number, *record.about)
            self.agent.withdraw(record.number)
        elif record.kind == "charge":
            self.agent.ledger.spent_units += record.amount
        elif record.kind == "change":
            carry_out(self.agent, json.loads(record.key))
        elif record.kind == "activate" and self.body.unanswered.close_after is not None:
            self.expect(record.at + round(self.body.unanswered.close_after * MICRO))

    def restore_latest_context(self, context: str | None) -> None:
        """Set the context of the last decision, which a snapshot does not hold."""
        if context is not None:
            self.latest_context = json.loads(context)

    def snapshot(self) -> str:
        """The state of the agent as text. It only saves time: the log has everything, also what is awaited."""
        return dumps(self.agent, check=False, awaited=False)

    # Budgets, contexts, rewards.

    def _granted_by_now(self, decisions: int) -> tuple[int, int]:
        """The budget granted so far, and the part of it that came from growth, after this many decisions."""
        return granted_by_now(self.record, self.body, self.clock, decisions)

    def _context(self, wanted: DecisionBody) -> tuple[Any, str]:
        """The context in the form that the agent takes, and as JSON for the store."""
        if self.body.linear:
            if wanted.features is UNSET or wanted.context is not UNSET:
                raise Unprocessable(
                    "this agent decides by `features`, a row of numbers for each action, and no `context`"
                )
            if self.body.shares_input and len(wanted.features) != 1:
                raise Unprocessable(f"all actions share one input: features have one row, not {len(wanted.features)}")
            if len({len(row) for row in wanted.features}) > 1:
                raise Unprocessable("all rows of the features must have the same length")
            return wanted.features, msgspec.json.encode(wanted.features).decode()
        if wanted.features is not UNSET:
            raise Unprocessable("this agent takes no `features`; a learner of type OFUL does")
        index = self.context_index(None if wanted.context is UNSET else wanted.context)
        return index, str(index)

    def context_index(self, context: str | int | None) -> int:
        """The index of a context that is given by name or by index."""
        names = self.body.contexts
        if names is None:
            if context is not None and context != 0:
                raise Unprocessable(f"this agent has no contexts; {context!r} was given")
            return 0
        if isinstance(context, int) and context < len(names):
            return context
        if isinstance(context, str) and context in self._context_indices:
            return self._context_indices[context]
        few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise Unprocessable(f"context must be one of {few}, or a number in 0 … {len(names) - 1}; not {context!r}")

    def action_name(self, action: int) -> str | int:
        """The name of an action, or its index if actions have no names."""
        return action if self.body.actions is None else self.body.actions[action]

    def _cost(self, action: int) -> int:
        costs = self.body.costs
        return UNIT if costs is None else cost_units_of(costs[action])

    def _check_reward(self, reward: float) -> None:
        low, high = self.body.rewards.low, self.body.rewards.high
        if not low <= reward <= high:
            raise Unprocessable(f"the reward must lie in {low:g} … {high:g}, not {reward:g}")
        if self.body.shares_input and reward not in (low, high):
            raise Unprocessable(
                f"the reward must be {high:g} if the action was right, and {low:g} if not; or a `label`"
            )

    def _scaled(self, reward: float) -> float:
        """Scale a reward to [0, 1]; learners of linear rewards take it unchanged."""
        if not self.body.scales:
            return reward
        low, high = self.body.rewards.low, self.body.rewards.high
        return min(max((reward - low) / (high - low), 0.0), 1.0)


def paused(record: AgentRecord, now: int) -> Changes:
    """The changes that pause an agent, from its counters alone: as `LiveAgent.pause`, without loading the agent."""
    after = dataclasses.replace(record, paused=1, seq=record.seq + 1, last_at=max(now, record.last_at))
    counters = (after.id, after.seq, after.last_at, after.granted, after.spent, after.held, after.asks, after.answers)
    entry = EntryRecord(*counters, "pause", "", 0, 0, None, 0)
    after.chain = chain.seal(record.chain, [entry])
    return Changes(record, after, [], [], [entry])


def about(context: str, action: int, gain: float | None) -> About:
    """What an answer to a decision needs, from the columns of the decision."""
    place = json.loads(context)
    row = place[min(action, len(place) - 1)] if isinstance(place, list) else place  # all actions may share one
    return About(row, action, gain or 0.0)


def _payload(payload: Any) -> str | None:
    return None if payload is UNSET else _text(payload)


def _text(payload: Any, **options: Any) -> str:
    """JSON as text. msgspec is fast, but does not write integers beyond 64 bits; json does."""
    try:
        return msgspec.json.encode(payload, **options).decode()
    except OverflowError:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys="order" in options)


def fingerprint(context: str, wanted: DecisionBody) -> str:
    """A digest of the context, the payload and `defer`, to tell a retry from a different request."""
    if wanted.payload is UNSET and len(context) < 30:
        return f"{context}d" if wanted.defer else context  # short enough to serve as its own digest
    payload = "" if wanted.payload is UNSET else _text(wanted.payload, order="sorted")
    return hashlib.sha256(f"{context}\n{wanted.defer}\n{payload}".encode()).hexdigest()[:32]
