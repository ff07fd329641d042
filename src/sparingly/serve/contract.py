"""The HTTP contract: the types of all request and response bodies, with their limits.

The service validates requests and builds responses with these types, the OpenAPI document is generated from them (the
docstrings of the classes included), and the client returns them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from sparingly import learners, rules

LARGEST_BODY = 256 * 1024  # bytes, of an agent, a change of it or a decision
SMALL_BODY = 16 * 1024  # bytes, of everything else
DEEPEST = 32  # levels of nesting in a body
MOST_ACTIONS = 1_000
MOST_CELLS = 100_000  # actions × contexts
# $ also matches before a final line feed, hence the lookahead.
NAME = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$(?!\n)"
ID = r"^[A-Za-z0-9](?:[A-Za-z0-9._:~@-]{0,126}[A-Za-z0-9])?$(?!\n)"

Name = Annotated[str, Meta(pattern=NAME, description="Letters, digits and . _ - inside; at most 64.")]
Id = Annotated[str, Meta(pattern=ID, description="Letters, digits and . _ : ~ @ - inside; at most 128.")]
Label = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\u0000-\u001f\u007f]+$(?!\n)")]
Positive = Annotated[float, Meta(gt=0.0, le=1e12)]
Amount = Annotated[float, Meta(ge=0.0, le=4e12, description="In units of budget; counted in millionths.")]
Seconds = Annotated[float, Meta(gt=0.0, le=3.2e9)]
Number = Annotated[float, Meta(ge=-1e12, le=1e12)]
Time = Annotated[str, Meta(description="RFC 3339, UTC, microseconds.", examples=["2026-01-31T12:00:00.000000Z"])]
Cost = Annotated[float, Meta(ge=0.0, le=1e6)]
Row = Annotated[list[Number], Meta(min_length=1, max_length=256)]


class Body(Struct, forbid_unknown_fields=True, frozen=True):
    """A body that is sent to the service: what is not known is refused."""


# Creating an agent.


# Learners and rules are bodies with a `type`, made from the registries: one for each that works without episodes.

ELSEWHERE = {"arms", "classes", "contexts", "costs"}  # parameters that the body of the agent has
LIMITS: dict[str, Any] = {  # of parameters by their names; others are numbers, or whole numbers ≥ 0
    "alpha": Annotated[float, Meta(gt=0.0, le=1e6)],
    "beta": Annotated[float, Meta(ge=0.0, le=1.0)],
    "delta": Annotated[float, Meta(gt=0.0, lt=1.0)],
    "explore": Literal["asked", "always"],
    "dim": Annotated[int, Meta(ge=1, le=256)],
    "forget": Annotated[float, Meta(ge=0.0, le=0.5)],
    "horizon": Annotated[int, Meta(ge=1, le=2**53)] | None,
    "length": Annotated[float, Meta(gt=0.0, le=1e6)],
    "noise": Annotated[float, Meta(ge=0.0, le=1e6)],
    "norm": Annotated[float, Meta(ge=0.0, le=1e6)],
    "policies": Annotated[int, Meta(ge=1, le=64)],
    "prior": Annotated[float, Meta(ge=0.0, le=1.0)],
    "prior_weight": Annotated[float, Meta(ge=0.0, le=1e9)],
    "radius": Literal["determinant", "simple"],
    "reserve": Annotated[float, Meta(ge=0.0, le=1.0)],
    "ridge": Annotated[float, Meta(gt=0.0, le=1e6)],
    "scale": Annotated[float, Meta(ge=0.0, le=1e6)],
    "ties": Literal["first", "random"],
}


def body_of(part: Any, **constants: Any) -> type[Body]:
    """The body of a learner or a rule: its parameters with their limits and defaults."""
    fields: list[Any] = []
    for field in dataclasses.fields(part):
        if field.name not in ELSEWHERE:
            kind = Annotated[int, Meta(ge=0, le=2**53)] if field.type in ("int", int) else Number
            name_and_type = (field.name, LIMITS.get(field.name, kind))
            required = field.default is dataclasses.MISSING
            fields.append(name_and_type if required else (*name_and_type, field.default))
    fields.sort(key=len)  # those without a default first
    namespace = {"__doc__": part.summary, **constants}
    options = {"tag_field": "type", "tag": part.__name__, "frozen": True, "module": __name__}
    made = msgspec.defstruct(part.__name__, fields, bases=(Body,), namespace=namespace, **options)
    return cast(type[Body], made)


LEARNERS = {
    learner.__name__: body_of(
        learner,
        setting=learner.setting,
        shares_input="classes" in learner.__annotations__,
        yes_or_no=getattr(learner, "yes_or_no", True),
    )
    for learner in learners.LEARNERS
    if learner.setting != "episodic"
}
RULES = {rule.__name__: body_of(rule) for rule in rules.RULES if {"tabular", "linear"} & rule.functions.keys()}
if TYPE_CHECKING:
    LearnerBody: TypeAlias = Any
    RuleBody: TypeAlias = Any
else:
    LearnerBody, RuleBody = Union[tuple(LEARNERS.values())], Union[tuple(RULES.values())]  # noqa: UP007  made of lists


def __getattr__(name: str) -> Any:
    """`contract.UCB1` and the like: the body of a learner or a rule."""
    try:
        return (LEARNERS | RULES)[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


class ByGrants(Body, frozen=True, tag_field="by", tag="grants"):
    """The budget grows by grants only."""


class ByClock(Body, frozen=True, tag_field="by", tag="clock"):
    """The budget grows evenly with time: `amount` in every `every` seconds (50 a day: amount 50, every 86400)."""

    amount: Amount
    every: Seconds = 86_400.0


class ByDecisions(Body, frozen=True, tag_field="by", tag="decisions"):
    """The budget grows with every decision by `rate` (5 %: 0.05)."""

    rate: Annotated[float, Meta(ge=0.0, le=1e6)]


class BudgetBody(Body, frozen=True):
    """What may be spent: `initial` at once, and what `growth` adds; grants come on top of any growth."""

    initial: Amount = 0.0
    growth: ByGrants | ByClock | ByDecisions = ByGrants()


class Unanswered(Body, frozen=True):
    """What happens to an ask that nobody answers. It stays spent, because a person was bothered.

    `close_after` seconds it leaves the list of open asks (null: never). An answer after that is kept and marked late;
    with `late` = "learn" the learner takes it in all the same, with "keep" it is kept for the log only.
    """

    close_after: Seconds | None = None
    late: Literal["learn", "keep"] = "learn"


class Rewards(Body, frozen=True):
    """The scale of the answers, from `low`, the worst, to `high`, the best (1 to 5 stars: low 1, high 5)."""

    low: Number = 0.0
    high: Number = 1.0


class AgentBody(Body, frozen=True):
    """An agent: what it chooses from, how it learns, when it asks, and what it may spend."""

    learner: LearnerBody
    actions: Annotated[list[Label], Meta(min_length=1, max_length=MOST_ACTIONS)] | None = None
    contexts: Annotated[list[Label], Meta(min_length=1, max_length=MOST_CELLS)] | None = None
    costs: Annotated[list[Cost], Meta(min_length=1, max_length=MOST_ACTIONS)] | None = None
    rule: RuleBody = RULES["BalancedMatching"]()
    budget: BudgetBody = BudgetBody()
    unanswered: Unanswered = Unanswered()
    rewards: Rewards = Rewards()
    lease: Annotated[float, Meta(gt=0.0, le=3.2e9, description="Seconds until a deferred ask expires.")] = 600.0
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    description: Annotated[str, Meta(max_length=2_000)] = ""

    @property
    def linear(self) -> bool:
        """Whether decisions come with features, rather than contexts."""
        return bool(self.learner.setting == "linear")

    @property
    def shares_input(self) -> bool:
        """Whether the features are one row, for all actions."""
        return bool(self.learner.shares_input)

    @property
    def scales(self) -> bool:
        """Whether the learner takes rewards as they lie between `low` and `high`, from 0 to 1."""
        return bool(self.learner.yes_or_no)


class ChangeBody(Body, frozen=True):
    """What to change; everything that was learnt stays. The same body again changes nothing more.

    Actions and contexts are named; a retired one is never chosen again, keeps its number and what is known of it, and
    returns if it is added again. `costs` are those of the added actions. `granted` raises the budget to so much in all.
    """

    add_actions: Annotated[list[Label], Meta(max_length=MOST_ACTIONS)] = []
    costs: Annotated[list[Cost], Meta(max_length=MOST_ACTIONS)] | None = None
    retire_actions: Annotated[list[Label], Meta(max_length=MOST_ACTIONS)] = []
    add_contexts: Annotated[list[Label], Meta(max_length=MOST_CELLS)] = []
    retire_contexts: Annotated[list[Label], Meta(max_length=MOST_CELLS)] = []
    rule: RuleBody | None = None
    granted: Amount | None = None


# Requests to an agent.


class DecisionBody(Body, frozen=True):
    """Ask for a decision. With an `event_id` of your own a retry gets the same answer, for ever."""

    event_id: Id | UnsetType = UNSET
    context: Label | Annotated[int, Meta(ge=0, le=MOST_CELLS)] | UnsetType = UNSET
    features: Annotated[list[Row], Meta(min_length=1, max_length=MOST_ACTIONS)] | UnsetType = UNSET
    payload: Any = UNSET
    defer: bool = False


class FeedbackBody(Body, frozen=True):
    """The reward of the action, on the agent's scale of rewards; or the action that would have been right.

    All actions learn from a `label`, for the price of one ask: it is worth `high`, all others `low`. With features of
    their own for each action there are rewards only.
    """

    reward: Number | UnsetType = UNSET
    label: Label | Annotated[int, Meta(ge=0, le=MOST_ACTIONS)] | UnsetType = UNSET


class GrantBody(Body, frozen=True):
    """More budget. The same grant_id again changes nothing."""

    grant_id: Id
    amount: Amount


class ChargeBody(Body, frozen=True):
    """Asks that happened but are not in the store, after the restore of an older copy: they are counted as spent."""

    charge_id: Id
    amount: Amount


class ConfirmBody(Body, frozen=True):
    """The time by a clock that you trust. Confirms a held clock, if it shows the same to within a minute."""

    now: Annotated[datetime, Meta(tz=True, examples=["2026-01-31T12:00:00Z"])]


class NoBody(Body, frozen=True):
    """An empty body."""


# Responses.

Reason = Literal[
    "width_reaches_threshold", "reserve", "worth_it", "below_threshold", "budget_exhausted", "free_part_spent",
    "better_rounds", "settled", "paused",
]  # fmt: skip
Chosen = Literal["explored", "exploited", "past_policy", "unknown"]
Status = Literal["not_asked", "held", "open", "answered", "unanswered", "released", "expired"]


class Budget(Struct, frozen=True):
    """The budget: granted = spent + held + left. Held is what deferred asks may still cost."""

    granted: float
    spent: float
    held: float
    left: float


class Decision(Struct, frozen=True):
    """What to do, and whether to ask for feedback on it. It never changes: a retry gets the same."""

    agent: str
    event_id: str
    number: int  # 1, 2, 3, … in the order of the agent's decisions
    action: str | int  # its name; its number if the agent's actions have no names
    action_index: int
    ask: bool
    reason: Reason
    width: float | None  # of the interval around the action's value; null: wider than a number can say
    threshold: float | None  # the rule asks at or above it; null: nothing is wide enough
    budget: Budget
    lease_expires_at: Time | None  # for a deferred ask: activate it before then
    decided_at: Time
    chosen: Chosen | None = None  # how the action was chosen; null for decisions of version 0.1.0
    explanation: str = ""  # both in words


class Event(Struct, frozen=True):
    """A decision with its current status."""

    agent: str
    event_id: str
    number: int
    action: str | int
    action_index: int
    ask: bool
    reason: Reason
    width: float | None
    threshold: float | None
    cost: float
    status: Status
    context: str | int | None
    payload: Any
    reward: float | None
    late: bool
    decided_at: Time
    due_at: Time | None  # when a held ask expires, or an open one is closed
    answered_at: Time | None
    chosen: Chosen | None = None
    explanation: str = ""


class EventList(Struct, frozen=True):
    """Some decisions, newest first (asks: oldest first), and where to go on."""

    events: list[Event]
    next: int | None  # pass it as `before` (asks: `after`) for the next page; null: there is no more


class Feedback(Struct, frozen=True):
    """An answer, as it was stored."""

    agent: str
    event_id: str
    reward: float
    late: bool
    learned: bool  # whether the learner took it in
    answered_at: Time


class Booking(Struct, frozen=True):
    """A grant or a charge, as it was booked, with the budget right after it."""

    agent: str
    id: str
    amount: float
    budget: Budget
    booked_at: Time


class Estimate(Struct, frozen=True):
    """What is known about one action: the mean of its answers and the interval around it."""

    action: str | int
    context: str | None
    mean: float | None  # null: no answer yet
    low: float | None
    high: float | None
    asked: int | None  # null where features tell actions apart: they are not counted one by one
    answered: int | None
    width: float | None  # as the rule sees it, by asks; null: wider than a number can say


class Estimates(Struct, frozen=True):
    """The estimates of all actions, for one context or for the features of the latest decision, and the threshold."""

    estimates: list[Estimate]
    threshold: float | None
    contexts: list[str] | None


class Agent(Struct, frozen=True, omit_defaults=True):
    """An agent and its counters; `body` is as it was created, with all that was changed since."""

    name: str
    body: AgentBody
    created_at: Time
    paused: bool
    decisions: int
    asks: int
    answers: int
    open: int
    held: int
    unanswered: int  # closed without an answer; asks = answers + open + held + unanswered
    budget: Budget
    retired_actions: list[str] = []  # left out if there are none
    retired_contexts: list[str] = []


class AgentList(Struct, frozen=True):
    """Agents, by name, and where to go on."""

    agents: list[Agent]
    next: str | None = None  # pass it as `after` for the next page; null: there is no more

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.agents)

    def __len__(self) -> int:
        return len(self.agents)


class Point(Struct, frozen=True):
    """The counters of an agent at one moment."""

    at: Time
    asks: int
    answers: int
    granted: float
    spent: float
    held: float


class History(Struct, frozen=True):
    """Budget, asks and answers over time, oldest first."""

    points: list[Point]


class Clock(Struct, frozen=True):
    """The time that budgets and leases go by, and the clock that it comes from."""

    now: Time  # the trusted time
    clock: Time  # what the clock shows
    held: bool  # whether the clock has jumped ahead and is not followed
    ahead: float  # by how many seconds; 0 if it is not held


class Deleted(Struct, frozen=True):
    """The name of an agent that was deleted."""

    deleted: str


class Health(Struct, frozen=True):
    """Whether the service runs, and if it can decide."""

    status: Literal["ok", "unavailable"]
    version: str
    detail: str = ""


class Problem(Struct, frozen=True, omit_defaults=True):
    """What went wrong (RFC 9457), in words for a person and a `type` for a program."""

    type: str
    title: str
    status: int
    detail: str = ""
    instance: str = ""
