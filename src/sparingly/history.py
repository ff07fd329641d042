"""What an adaptive adversary gets to see before it picks a context or a budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass
class History:
    """Everything that happened before this round, in counts, and the last round in full.

    A context adversary sees B(t) of this round if the budget was decided ahead; a budget adversary sees this
    round's context. `memory` is the adversary's own notebook for this run, `random` its own randomness.
    """

    round: int  #: t = 1, 2, …
    context: int | None  #: of this round; None while it is being chosen
    granted: float  #: B(t) if it is known already, else B(t−1)
    grew: bool  #: whether the budget is known to have grown in this round
    spent: float
    plays: Integers  #: (S, A), or (H, S, A) for episodes: how often each cell was played
    asked: Integers  #: n^q, likewise
    last: tuple[Any, Any, Any] | None  #: context, action, ask of the round before; for episodes (H,) actions, asks
    random: np.random.Generator
    memory: dict[str, Any] = field(default_factory=dict)
