"""The interaction in one screen: Decision, Question, Learner, QueryRule, Family, Problem.

Every round goes the same way, in every setting (arms, features, episodes):

    propose    the learner names an action for the context
    Question   what is known about it: how often it was asked about, how wide its interval is, what asking costs
    asks       the rule looks at the Question and wants to ask, or not
    settle     the ledger has the last word: the ask is charged and counted
    learn      the answer comes, now or later, and the learner learns from it

The Agent, the simulator and the service go this way with the same functions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput
from sparingly.reasons import in_words

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
State = dict[str, NDArray[Any]]  # what a learner in plain Python remembers: named arrays, so that anyone can save it
SETTINGS = {"tabular": "arms", "linear": "features", "episodic": "episodes"}  # by name, and as messages call them


class Decision(NamedTuple):
    """What an agent decided in one round."""

    id: int  #: 1, 2, 3, …: pass it, or the whole decision, to observe()
    action: Any  #: the name of the action, or its number if actions have no names
    ask: bool  #: whether to ask for the reward of the action; the budget is charged already
    width: float  #: of the interval around the action's value, counting the asks so far
    threshold: float  #: the rule asks if the width is at or above it; NaN for a rule without such a threshold
    why: int = 0  #: a number for the reason, see `sparingly.reasons`
    index: int = 0  # type: ignore[assignment]  #: the number of the action; it hides tuple.index, which nobody needs here

    @property
    def reason(self) -> str:
        """In words: how the action was chosen, and why the agent asks about it or not."""
        return in_words(self.why)


class Units(NamedTuple):
    """The amounts of a Question as the ledger counts them: whole millionths, exact."""

    cost: int
    total_cost: int
    granted: int
    spent: int


class Row(NamedTuple):
    """What a Question adds for linear learners: x is the row of features, V = λI + Σ x xᵀ over the asks so far."""

    norm: float  #: ‖x‖ in V⁻¹
    dim: int  #: d
    ridge: float  #: λ
    length: float  #: L, which no ‖x‖ exceeds
    log_det: float  #: log det V
    trace: float  #: tr V
    cheapest: int  #: the least cost of asking that is not 0, over all actions, in millionths
    dearest: int  #: the largest cost of asking, in millionths
    least: float  #: with fewer asks than this, exact matching promises nothing
    patience: float  #: rounds over which a pace spends what is waiting, on top of what comes in


class Step(NamedTuple):
    """What a Question adds for episodes, where a cell is a step, a state and an action."""

    visits: int  #: n: how often the cell was visited
    log_term: float  #: L_t, the logarithm in the bonuses of this episode
    rewarding: float  #: |L_R|: how many cells can have a reward
    seen_cost: int  #: the costs of all cells that were visited, added up, in millionths


class Question(NamedTuple):
    """What a rule knows when it decides whether to ask about one action.

    A *cell* is a context and an arm, or a step, a state and an action. With features there are no cells: `asked` is
    how many asks about this very row would make it as narrow as it is, `cells` is the dimension.
    """

    round: int  #: t, the rounds (or episodes) the learner has lived through, this one included
    asked: int  #: n^q: how often this cell was asked about before
    width: float  #: of the interval around its value, counting the asks so far
    cost: float  #: c: the cost of asking here
    total_cost: float  #: C: the sum of the costs of all cells
    budget: float  #: B(t): everything granted so far
    spent: float  #: how much of it was spent
    cells: int  #: M: the number of cells
    units: Any = None  #: `Units`: the four amounts in whole millionths; None if a person has put the question together
    row: Any = None  #: `Row`, with features only
    step: Any = None  #: `Step`, in episodes only
    score: float = math.inf  #: what an ask would be worth compared with other rounds, for rules that keep a pace
    pace: Any = None  #: `rules.pacing.Pace`: what such a rule remembers
    counts: Any = None  #: (M,) of every cell, by name: cost, asked, answered; in episodes visits too
    recalled: float = -1.0  #: n^q with its fraction, if the learner forgets (then `asked` is rounded down); else −1

    @property
    def setting(self) -> str:
        """The setting that the question comes from."""
        if self.step is not None:
            return "episodic"
        return "tabular" if self.row is None else "linear"


@runtime_checkable
class Learner(Protocol):
    """Chooses among arms and learns from answers, in plain Python. `sparingly.testing` has a check for it.

    `arms` and `contexts` say how many there are; `costs` what asking costs: None for 1 each, else (A,) or (S, A).
    CONTRIBUTING has recipes, also for features (`FeatureLearner`), episodes (`EpisodeLearner`) and compiled formulas.
    """

    @property
    def arms(self) -> int: ...
    @property
    def contexts(self) -> int: ...
    @property
    def costs(self) -> Any: ...  # None for unit costs, else (A,) or (S, A)

    def start(self) -> State:
        """A fresh state: named arrays, changed in place from now on."""
        ...

    def choose(self, state: State, context: int, round: int, random: np.random.Generator) -> int:
        """The action for this context in this round (1, 2, …). Must not change the state."""
        ...

    def learn(self, state: State, context: int, action: int, reward: float) -> None:
        """Learn from one answer. Answers may come late and in any order."""
        ...


@runtime_checkable
class FeatureLearner(Protocol):
    """Chooses among rows of features and learns from answers, in plain Python.

    `dim` is d; `costs` (A,) what asking about each action costs, None for 1 each. `length` (default 1) bounds every
    ‖x‖ and `ridge` (default 1) is the λ of the ellipsoid by which rules measure widths, if the learner has them.
    """

    @property
    def dim(self) -> int: ...
    @property
    def costs(self) -> Any: ...

    def start(self) -> State: ...

    def choose(self, state: State, features: Floats, round: int, random: np.random.Generator) -> int:
        """The row of the features (A, d) to play in this round (1, 2, …). Must not change the state."""
        ...

    def learn(self, state: State, row: Floats, reward: float) -> None:
        """Learn from the answer about a row of features (d,). Answers may come late and in any order."""
        ...


@runtime_checkable
class EpisodeLearner(Protocol):
    """Plans episodes and learns from them, in plain Python.

    `states`, `actions` and `horizon` are S, A and H; `costs` is what asking costs, (S, A) or (H, S, A), None for 1.
    """

    @property
    def states(self) -> int: ...
    @property
    def actions(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def costs(self) -> Any: ...

    def start(self) -> State: ...

    def plan(self, state: State, episode: int, random: np.random.Generator) -> Integers:
        """The policy (H, S) of an episode (1, 2, …). Must not change the state."""
        ...

    def visit(self, state: State, states: Integers, actions: Integers) -> None:
        """Learn from the states and actions (H,) of an episode that was played."""
        ...

    def learn(self, state: State, step: int, visited: int, action: int, reward: float) -> None:
        """Learn from the answer about one step, the state visited there and the action. Answers may come late."""
        ...


Outcome = tuple[int, bool, float, float, int, Any]  # action, ask, width, threshold, why, ticket


class Family(Protocol):
    """What an Agent needs of a setting. A *ticket* is what is needed to learn from an answer later."""

    learner: Any  # with the costs that were given to the agent, if they are part of it
    rule: Any
    account: Any  # (1,) the ledger's account
    made: Integers  # (1,) how many decisions, or episodes, were made
    retired: dict[str, frozenset[int]]  # "actions", "contexts": the numbers of those that were retired
    nameable: dict[str, int | None]  # "actions", "contexts": what may have names, and how many there are; None: any

    def check(self, context: Any) -> Any:
        """The context as `decide` takes it, or an error that says what it must be."""
        ...

    def decide(self, context: Any) -> Outcome:
        """A whole round: propose, Question, asks, settle."""
        ...

    def learn(self, ticket: Any, reward: float) -> None: ...
    def check_reward(self, reward: object) -> float: ...
    def check_id(self, id: Any) -> InvalidInput:
        """The error for an id for which no answer is expected."""
        ...

    def count_ask(self, context: Any, action: int) -> Any:
        """Count an ask that was decided elsewhere; its ticket."""
        ...

    def take_back(self, ticket: Any) -> None:
        """Undo an ask that nobody has seen."""
        ...

    def add(self, what: str, cost: Any) -> int:
        """One more of the "actions" or "contexts"; its number."""
        ...

    def set_rule(self, rule: Any) -> None:
        """Go on with another rule."""
        ...

    def set_live(self, what: str, number: int, live: bool) -> None:
        """Retire an action or a context, or bring it back."""
        ...

    def attach(self) -> None:
        """Name the parts of the memory again, after a copy."""
        ...

    def parts(self) -> dict[str, Any]:
        """All that is remembered, by name, as a saved file has it."""
        ...

    def restore(self, parts: dict[str, Any]) -> None: ...
    def check_sums(self, tickets: list[Any] | None) -> None:
        """Refuse a restored memory that does not add up, given all that is awaited; None: that is not known."""
        ...


@runtime_checkable
class QueryRule(Protocol):
    """Decides whether to ask."""

    def asks(self, question: Question) -> bool:
        """Whether to ask, given what is known. The ledger has the last word."""
        ...


@runtime_checkable
class Problem(Protocol):
    """What is simulated: expected rewards, a source of contexts, and a way to draw answers.

    `means` (S, A) is the truth that regret is measured against; `costs` is None for 1 each, else (A,) or (S, A);
    `contexts` one of `sparingly.contexts`.
    """

    @property
    def means(self) -> Floats: ...  # (S, A), the truth that regret is measured against
    @property
    def costs(self) -> Any: ...  # None for unit costs, else (A,) or (S, A)
    @property
    def contexts(self) -> Any: ...  # see `sparingly.contexts`

    def draw(self, context: int, action: int, key: np.uint64, k: int) -> float:
        """The k-th answer (k = 0, 1, …) of this cell, from the cell's key for this run."""
        ...
