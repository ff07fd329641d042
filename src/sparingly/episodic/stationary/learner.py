"""UCBVI with one model for all steps: where a step leads and what it pays depend on state and action alone.

With k steps to go, Q_k(s,a) = min(G_k, r̄ + b^r + P̄V_{k−1} + b^p), V_k = max_a Q_k, and with L = log(12 S²AH t²(t+1)/δ)
at the t-th step (without H, if there is a discount)

    b^p = max(scale·sqrt(8 Var(V_{k−1}) L/n), slack·(28/3)·R L/n)

under the estimated transitions. G_k is the most that k steps can return, R how far apart returns can lie. With scale =
slack = 1 and nothing imagined this has the guarantee of docs/paper.md: the maximum makes Q_k monotone in V_{k−1}, so
that optimism needs no more. What is imagined stands in for it in practice, where bonuses have to be small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic.learner import as_tuples
from sparingly.errors import InvalidInput
from sparingly.ledger import cost_in_units
from sparingly.numba_support import inlined
from sparingly.parameters import Parametric
from sparingly.tabular.learner import TIES, check_scale
from sparingly.validation import choice, number, table, whole

Floats = NDArray[np.float64]

BY = ("outcome", "action")  # what a reward depends on: on what was reached too, or on state and action alone
SWEEP_FROM = 1_000  # states, from which on a plan for every step takes longer than prioritised sweeping


@inlined
def transition_bonus(learner: StationaryUCBVI, variance: float, visits: int, logs: float, reach: float) -> float:
    """b^p of a cell with so many visits; `variance` is that of V over its successors, `reach` is R."""
    root = learner.scale * math.sqrt(8.0 * variance * logs / visits)
    return max(root, learner.slack * 28.0 / 3.0 * reach * logs / visits)


@dataclass(frozen=True)
class StationaryUCBVI(Parametric):
    """UCBVI with one model for all steps, which acts step by step: `agent.act(state)`, then `agent.reached(next)`.

    For environments that do not know what time it is, which is nearly all. There are S·A cells to ask about, where
    `UCBVI` has S·A·H. Episodes last `horizon` steps at most; they may end early, and a task that never ends is played
    in stretches of that length.

    `rewards` are the least and the greatest reward; what comes after the end of an episode is worth 0. `returns` are
    the least and the greatest return that a good policy can have from any state: by default whatever so many rewards
    can add up to. A tighter pair, such as (0, 1) where only the goal is rewarded, saves many steps.

    `by` says what a reward depends on: "outcome", on the state that was reached and on whether the episode has ended
    there, or "action", on state and action alone. After `known_after` equal answers it counts as known, and is asked
    about only when its visits have doubled, as an audit; None: never. As soon as any answers about one reward have
    differed, it takes more: so many that a random reward is taken for a known one with probability `doubt` at most.

    `discount` γ plans for a future that counts for less by γ a step, by prioritised sweeping: some backups at every
    step, whatever the number of states. None plans for each number of steps to go whenever a count has doubled.

    What was never tried is as promising as can be. After that, `imagined_visits` of each action are imagined to have
    led to the best that any action has led to from there, and `imagined_answers` to have been the greatest reward, or
    `imagined_if_random` as soon as any answers have differed: so what is random is tried often enough, and what is not
    is tried once. `scale` multiplies the square roots of the bonuses, `slack` the rest. These are settings for
    practice; the guarantee holds for `discount=None`, `scale=1`, `slack=1` and nothing imagined. The budget is safe
    with any of them.

    `costs` is what asking costs, (S, A), None for 1 each. `ties` is "random" or "first".

    >>> StationaryUCBVI(states=16, actions=4, horizon=100, returns=(0, 1)).cells
    64
    """

    summary = "One model for all steps, acting step by step: for environments that others wrote."
    role: ClassVar[str] = "learner"
    setting: ClassVar[str] = "episodic"
    functions: ClassVar[dict[str, Callable[..., Any]]] = {"transition_bonus": transition_bonus}

    states: int
    actions: int
    horizon: int
    _: KW_ONLY
    rewards: tuple[float, float] = (0.0, 1.0)
    returns: tuple[float, float] | None = None
    by: str = "outcome"
    known_after: int | None = 2
    discount: float | None = 0.995
    delta: float = 0.05
    scale: float = 0.05
    slack: float = 3e-6
    imagined_visits: float = 4.0
    imagined_answers: float = 0.15
    imagined_if_random: float = 1.0
    doubt: float = 0.01
    ties: str = "random"
    costs: Any = None

    def __init_subclass__(cls, **functions: Callable[..., Any]) -> None:
        super().__init_subclass__()
        if functions:
            cls.functions = functions

    def __post_init__(self) -> None:
        for name, most in (("states", 10**8), ("actions", 10**6), ("horizon", 10**6)):
            object.__setattr__(self, name, whole(getattr(self, name), name, most=most))
        if self.cells > 10**9:
            raise InvalidInput(f"states · actions is {self.cells:,}; at most 1,000,000,000 is supported")
        object.__setattr__(self, "rewards", _pair(self.rewards, "rewards"))
        if self.returns is not None:
            object.__setattr__(self, "returns", _pair(self.returns, "returns"))
        if not self.span[0] < self.span[1]:
            raise InvalidInput(
                f"returns {self.returns} cannot be had in {self.horizon} steps with rewards in {self.rewards}"
            )
        choice(self.by, "by", BY)
        if self.known_after is not None:
            whole(self.known_after, "known_after, how many equal answers make a reward known,", most=10**9)
        if self.discount is not None and not 0.0 < number(self.discount, "discount") < 1.0:
            raise InvalidInput(f"discount must lie in (0, 1), or be None to plan for every step; not {self.discount!r}")
        if not 1e-100 <= number(self.delta, "delta") < 1.0:
            raise InvalidInput(f"delta must lie in [1e-100, 1), not {self.delta!r}")
        check_scale(self.scale)
        number(self.slack, "slack", least=0.0)
        number(self.imagined_visits, "imagined_visits", least=0.0)
        number(self.imagined_answers, "imagined_answers", least=0.0)
        number(self.imagined_if_random, "imagined_if_random", least=0.0)
        if not 0.0 < number(self.doubt, "doubt") <= 1.0:
            raise InvalidInput(f"doubt must lie in (0, 1], not {self.doubt!r}")
        choice(self.ties, "ties", TIES)
        if self.costs is not None:
            object.__setattr__(self, "costs", as_tuples(cell_costs(self.costs, self.states, self.actions).tolist()))

    @property
    def cells(self) -> int:
        """S·A."""
        return self.states * self.actions

    @property
    def span(self) -> tuple[float, float]:
        """The least and the greatest return: what so many rewards can add up to, within `returns` if it is given."""
        (least, most), (low, high) = self.rewards, self.returns or (-math.inf, math.inf)
        return max(self.horizon * min(least, 0.0), low), min(self.horizon * max(most, 0.0), high)

    @property
    def log_constant(self) -> float:
        """What stands before t²(t+1) in L."""
        values = self.horizon if self.discount is None else 1  # so many are estimated, of each state
        return 12.0 * float(self.states) ** 2 * self.actions * values / self.delta

    @property
    def stages(self) -> int:
        """For how many numbers of steps to go values are kept."""
        return 1 if self.discount is not None else self.horizon + 1


def _pair(given: Any, name: str) -> tuple[float, float]:
    """Two finite numbers, the smaller one first."""
    ends = table(given, name, "(2,)")
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise InvalidInput(f"{name} must be two finite numbers (least, greatest), not {given!r}")
    return float(ends[0]), float(ends[1])


def cell_costs(costs: Any, states: int, actions: int) -> Floats:
    """Costs of asking, (S, A)."""
    values: Floats = table(costs, "costs", f"{(states, actions)}")
    if values.shape != (states, actions):
        raise InvalidInput(f"costs must have shape {(states, actions)}, not {values.shape}")
    cost_in_units(values)  # refuses negative, NaN, infinite and too large ones
    return values
