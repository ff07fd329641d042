"""Environments that others wrote, for reinforcement learning step by step, and what a policy is worth in them.

The gridworlds of "Beyond Optimism: Exploration With Partially Observable Rewards" (Parisi, Kazemipour and Bowling,
2024), written anew from their description, RiverSwim, and Gymnasium's own FrozenLake, CliffWalking and Taxi.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

Entry = tuple[float, int, float, bool]  # probability, next state, reward, whether the episode ends: as in Gymnasium
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0), (0, 0))  # left, down, right, up, stay
ARROWS = {"<": 0, "v": 1, ">": 2, "^": 3}
STAY = 4
MAPS = {
    "Penalty-3x3": (".BG", ".B.", "..."),
    "Loop-3x3": (".<.", ".>^", "..G"),
    "Corridor-3x4": (".<<<", "gbbG", ".<<<"),
    "TwoRoomQuick-3x5": ("..<.G", "..q..", "..q.."),
    "Distract-6x6": (*("......",) * 5, "g....G"),
    "TwoRoom-2x11": ("g...>v<...G", "..........."),
}
STARTS = {"TwoRoom-2x11": (1, 5)}
HORIZONS = {"TwoRoom-2x11": 200}


class World(gymnasium.Env[int, int]):
    """An environment made of a table P[s][a] of entries, as Gymnasium's toy texts are."""

    def __init__(self, P: list[list[list[Entry]]], starts: list[int], silence: float = 0.0) -> None:
        self.P, self.starts, self.silence = P, starts, silence
        self.observation_space, self.action_space = Discrete(len(P)), Discrete(len(P[0]))
        self.initial_state_distrib = np.bincount(starts, minlength=len(P)) / len(starts)
        self.ladders = [[np.cumsum([entry[0] for entry in cell]) for cell in row] for row in P]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.s = self.starts[int(self.np_random.integers(len(self.starts)))]
        return self.s, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        cell = self.P[self.s][action]
        place = int(np.searchsorted(self.ladders[self.s][action], self.np_random.random())) if len(cell) > 1 else 0
        _, self.s, reward, ended = cell[min(place, len(cell) - 1)]
        if self.silence and self.np_random.random() < self.silence:
            reward = 0.0
        return self.s, reward, ended, False, {}


def grid(name: str, silence: float) -> World:
    """A gridworld from its map."""
    rows = MAPS[name]
    height, width = len(rows), len(rows[0])
    P = [[entries(rows, divmod(s, width), a) for a in range(5)] for s in range(height * width)]
    row, column = STARTS.get(name, (0, 0))
    return World(P, [row * width + column], silence)


def entries(rows: tuple[str, ...], at: tuple[int, int], action: int) -> list[Entry]:
    """What an action leads to on a tile of a map."""
    tile, here = rows[at[0]][at[1]], at[0] * len(rows[0]) + at[1]
    pays = {"B": -10.0, "b": -0.1, "G": float(action == STAY), "g": 0.1 * (action == STAY)}.get(tile, 0.0)
    works = tile not in ARROWS or ARROWS[tile] == action
    row, column = at[0] + MOVES[action][0], at[1] + MOVES[action][1]
    inside = 0 <= row < len(rows) and 0 <= column < len(rows[0])
    there = row * len(rows[0]) + column if works and inside else here
    ends = action == STAY and tile in "Gg"
    if tile == "q" and there != here:
        return [(0.1, there, pays, ends), (0.9, here, pays, ends)]
    return [(1.0, there, pays, ends)]


def river_swim(silence: float) -> World:
    """Six tiles in a row: left is easy and pays little, right is hard and pays at the far end."""
    P: list[list[list[Entry]]] = []
    for s in range(6):
        left = [(1.0, max(s - 1, 0), 0.01 if s == 0 else 0.0, False)]
        if s == 0:
            right = [(0.6, 1, 0.0, False), (0.4, 0, 0.0, False)]
        elif s == 5:
            right = [(0.6, 5, 1.0, False), (0.4, 4, 1.0, False)]
        else:
            right = [(0.35, s + 1, 0.0, False), (0.6, s, 0.0, False), (0.05, s - 1, 0.0, False)]
        P.append([left, right])
    return World(P, [1, 2], silence)


class Silent(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of which every reward is 0 with some probability."""

    def __init__(self, env: Any, silence: float) -> None:
        super().__init__(env)
        self.silence, self.coins = silence, np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.coins = np.random.default_rng([seed, 1])
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        s, reward, *rest = self.env.step(action)
        return s, 0.0 if self.coins.random() < self.silence else reward, *rest


@dataclasses.dataclass(frozen=True)
class Case:
    """An environment, how long an episode lasts at most, and what its description says of rewards and returns."""

    name: str
    horizon: int
    rewards: tuple[float, float]
    returns: tuple[float, float]  # of a policy that does no harm from any state on, such as standing still, to the best
    options: tuple[tuple[str, Any], ...] = ()
    silence: float = 0.0

    def make(self) -> Any:
        """The environment."""
        if self.name in MAPS:
            return grid(self.name, self.silence)
        if self.name == "RiverSwim-6":
            return river_swim(self.silence)
        env = gymnasium.make(self.name, max_episode_steps=self.horizon, **dict(self.options))
        return Silent(env, self.silence) if self.silence else env

    def silenced(self, silence: float) -> Case:
        """The same, with every reward 0 with this probability."""
        rewards = (min(self.rewards[0], 0.0), max(self.rewards[1], 0.0)) if silence else self.rewards
        return dataclasses.replace(self, silence=silence, rewards=rewards)

    @property
    def title(self) -> str:
        """Its name, short."""
        return " ".join([self.name.removesuffix("-v1").removesuffix("-v4"), *(str(v) for _, v in self.options)])

    @cached_property
    def truth(self) -> Truth:
        """Its table, solved."""
        return Truth(self)


class Truth:
    """The table of an environment as arrays, and its solution for episodes of so many steps."""

    def __init__(self, case: Case) -> None:
        bare = case.make().unwrapped
        S, A = int(bare.observation_space.n), int(bare.action_space.n)
        P = [[bare.P[s][a] for a in range(A)] for s in range(S)]
        K, self.horizon = max(len(cell) for row in P for cell in row), case.horizon
        self.chance, self.after = np.zeros((S, A, K)), np.zeros((S, A, K), dtype=np.int64)
        self.reward, self.start = np.zeros((S, A)), np.asarray(bare.initial_state_distrib, dtype=float)
        for s, row in enumerate(P):
            for a, cell in enumerate(row):
                for k, (p, after, reward, ended) in enumerate(cell):
                    self.chance[s, a, k], self.after[s, a, k] = p * (not ended), after
                    self.reward[s, a] += p * reward * (1.0 - case.silence)
        self.V = np.zeros((case.horizon + 1, S))
        self.Q = np.zeros((case.horizon, S, A))
        for h in reversed(range(case.horizon)):
            self.Q[h] = self.ahead(self.V[h + 1])
            self.V[h] = self.Q[h].max(axis=1)
        self.best = float(self.start @ self.V[0])

    def ahead(self, V: np.ndarray) -> np.ndarray:
        """Q of all cells, given V of the step after."""
        return self.reward + (self.chance * V[self.after]).sum(axis=-1)

    def value(self, policy: np.ndarray) -> float:
        """What a policy (H, S) returns."""
        V, states = np.zeros(self.start.size), np.arange(self.start.size)
        for h in reversed(range(self.horizon)):
            actions = policy[h, : states.size]
            chance, after = self.chance[states, actions], self.after[states, actions]
            V = self.reward[states, actions] + (chance * V[after]).sum(axis=-1)
        return float(self.start @ V)

    def good(self, policy: np.ndarray) -> bool:
        """Whether a policy is at 95 % of the optimum."""
        return self.value(policy) >= self.best - 0.05 * abs(self.best)


CASES = (
    Case("Penalty-3x3", 50, (-10.0, 1.0), (-10.0, 1.0)),
    Case("Loop-3x3", 50, (0.0, 1.0), (0.0, 1.0)),
    Case("RiverSwim-6", 200, (0.0, 1.0), (0.0, 200.0)),
    Case("TwoRoomQuick-3x5", 50, (0.0, 1.0), (0.0, 1.0)),
    Case("Corridor-3x4", 50, (-0.1, 1.0), (-0.1, 1.0)),
    Case("Distract-6x6", 50, (0.0, 1.0), (0.0, 1.0)),
    Case("TwoRoom-2x11", 200, (0.0, 1.0), (0.0, 1.0)),
    Case("FrozenLake-v1", 100, (0.0, 1.0), (0.0, 1.0), (("map_name", "4x4"),)),
    Case("FrozenLake-v1", 200, (0.0, 1.0), (0.0, 1.0), (("map_name", "8x8"),)),
    Case("CliffWalking-v1", 100, (-100.0, -1.0), (-100.0, 0.0)),
    Case("Taxi-v4", 200, (-10.0, 20.0), (-200.0, 20.0)),
)
