"""The interaction in one screen: what a decision is, and what a learner, a rule and a problem must offer.

Each round: see a context, `choose` an action, decide whether to ask, and if asked, `learn` from the answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
State = dict[str, NDArray[Any]]  # what a learner remembers: named arrays, so that anyone can copy and save it


class Decision(NamedTuple):
    """What an agent decided in one round."""

    id: int  #: 1, 2, 3, …: pass it to observe()
    action: int
    ask: bool  #: whether to ask what the action was worth; the budget is already charged
    width: float  #: of the interval around the action's value, counting the asks so far
    threshold: float  #: the rule asks while the width is at or above it; NaN for a rule of one's own


class Question(NamedTuple):
    """What a rule may look at before it decides whether to ask about one cell (context, action)."""

    round: int  #: t, the rounds the learner has lived through, this one included
    asked: int  #: n^q: how often this cell was asked for before
    width: float  #: sqrt(6 log(Mt) / (n^q ∨ 1)), the interval of the paper
    cost: float  #: c: what asking costs here
    total_cost: float  #: C: the costs of all cells added up
    budget: float  #: B(t): everything granted so far
    spent: float  #: of that
    cells: int  #: M: the number of cells


@runtime_checkable
class Learner(Protocol):
    """Chooses actions and learns from answers. See CONTRIBUTING for a recipe, `sparingly.testing` for a check.

    `arms` and `contexts` say how many there are; `costs` what asking costs: None for 1 each, else (A,) or (S, A).
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
        """Take in one answer. Answers may come late and in any order."""
        ...


@runtime_checkable
class QueryRule(Protocol):
    """Decides whether to ask."""

    def asks(self, question: Question) -> bool:
        """Whether to ask, given what is known. The ledger has the last word."""
        ...


@runtime_checkable
class Problem(Protocol):
    """A world to simulate: expected rewards, how contexts come about, and how an answer is drawn.

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
