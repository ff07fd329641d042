"""Spaces that are made of several Discrete ones, as Blackjack's are, numbered from 0 for learners that count states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from sparingly.errors import InvalidInput
from sparingly.validation import shown


def parts(space: Space[Any]) -> list[Discrete] | None:
    """The Discrete spaces that a space is made of, in order; None if it is made of anything else."""
    if isinstance(space, Discrete):
        return [space]
    if isinstance(space, MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape).ravel()
        return [Discrete(int(n), start=int(start)) for n, start in zip(space.nvec.ravel(), starts, strict=True)]
    if isinstance(space, MultiBinary):
        return [Discrete(2)] * int(np.prod(space.shape))
    if not isinstance(space, Tuple | Dict):
        return None
    inner = [parts(part) for part in _spaces_of(space)]
    return None if any(part is None for part in inner) else [one for part in inner for one in part or ()]


def _spaces_of(space: Tuple[Any] | Dict) -> Sequence[Space[Any]]:
    return list(space.spaces.values()) if isinstance(space, Dict) else space.spaces


def entries(space: Space[Any], value: Any) -> list[int]:
    """The whole numbers in a value of a space, in the order of its parts."""
    if isinstance(space, Discrete):
        return [int(value)]
    if isinstance(space, MultiDiscrete | MultiBinary):
        return [int(one) for one in np.ravel(value)]
    if isinstance(space, Dict):
        return [one for name, part in space.spaces.items() for one in entries(part, value[name])]
    inner = zip(cast(Tuple[Any], space).spaces, value, strict=True)
    return [one for part, given in inner for one in entries(part, given)]


def value_of(space: Space[Any], given: list[int]) -> Any:
    """The value of a space with these whole numbers, which are taken off the list."""
    if isinstance(space, Discrete):
        return given.pop(0)
    if isinstance(space, MultiDiscrete | MultiBinary):
        many = int(np.prod(space.shape))
        flat, given[:many] = np.array(given[:many], dtype=space.dtype), []
        return flat.reshape(space.shape)
    if isinstance(space, Dict):
        return {name: value_of(part, given) for name, part in space.spaces.items()}
    return tuple(value_of(part, given) for part in cast(Tuple[Any], space).spaces)


def size_of(space: Space[Any]) -> int | None:
    """How many values a space has; None if it is not made of Discrete ones."""
    made = parts(space)
    return None if made is None else math.prod(int(one.n) for one in made)


class Numbered(gymnasium.Wrapper[int, int, Any, Any]):
    """An environment whose observations and actions are numbered from 0: mixed radix, the last part counts fastest."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = cast(Any, Discrete(cast(int, size_of(env.observation_space))))
        self.action_space = cast(Any, Discrete(cast(int, size_of(env.action_space))))

    def number(self, observation: Any) -> int:
        """The number of an observation."""
        space, number = self.env.observation_space, 0
        if not space.contains(observation):
            raise InvalidInput(f"the environment showed {shown(observation)}, which is not in its {space}")
        for one, value in zip(parts(space) or (), entries(space, observation), strict=True):
            number = number * int(one.n) + value - int(one.start)
        return number

    def action(self, number: int) -> Any:
        """The action with a number."""
        found: list[int] = []
        for one in reversed(parts(self.env.action_space) or ()):
            number, digit = divmod(int(number), int(one.n))
            found.insert(0, digit + int(one.start))
        return value_of(self.env.action_space, found)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.number(observation), info

    def step(self, action: int) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        """Act."""
        observation, reward, terminated, truncated, info = self.env.step(self.action(action))
        return self.number(observation), reward, terminated, truncated, info


def numbered(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The environment with its states and actions numbered, or itself where they are Discrete, or cannot be counted."""
    states, actions = env.observation_space, env.action_space
    if isinstance(states, Discrete) and isinstance(actions, Discrete):
        return env
    return env if size_of(states) is None or size_of(actions) is None else Numbered(env)
