"""Random numbers that compiled and plain Python draw alike: SplitMix64 (Steele, Lea & Flood, 2014).

A *stream* is an array of one uint64 that each draw advances. A *key* and a counter k give the k-th draw
directly, so the k-th answer of a cell is the same whatever was asked before: rules meet equal noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparingly.numba_support import modular
from sparingly.validation import whole

GAMMA = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio in 64 bits: the step from one state to the next
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31, SHIFT_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
TO_UNIT = 1.0 / 9007199254740992.0  # 2**-53

Stream = NDArray[np.uint64]


@modular
def mix(z: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finalizer of SplitMix64)."""
    z = (z ^ (z >> SHIFT_30)) * MIX_1
    z = (z ^ (z >> SHIFT_27)) * MIX_2
    return z ^ (z >> SHIFT_31)


@modular
def bits_at(key: np.uint64, k: int) -> np.uint64:
    """The k-th 64 random bits (k = 0, 1, …) of the generator seeded with `key`."""
    return mix(key + np.uint64(k + 1) * GAMMA)


@modular
def to_unit(bits: np.uint64) -> float:
    """64 random bits as a number in [0, 1), a multiple of 2**-53."""
    return float(bits >> SHIFT_11) * TO_UNIT


@modular
def uniform(stream: Stream) -> float:
    """The next number in [0, 1) of a stream."""
    stream[0] += GAMMA
    return to_unit(mix(stream[0]))


@modular
def fork(stream: Stream) -> np.uint64:
    """A state of its own for a draw that takes an unknown number of steps; the stream advances by one."""
    stream[0] += GAMMA
    return mix(stream[0])


@modular
def normal(state: np.uint64) -> tuple[float, np.uint64]:
    """A standard normal number (Marsaglia's polar method), and the state to go on with."""
    while True:
        x = 2.0 * to_unit(mix(state + GAMMA)) - 1.0
        state = state + GAMMA + GAMMA
        y = 2.0 * to_unit(mix(state)) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square), state


@modular
def gamma(state: np.uint64, shape: float) -> tuple[float, np.uint64]:
    """A Gamma(shape, 1) number, shape > 0 (Marsaglia & Tsang, 2000), and the state to go on with."""
    boost = 1.0
    if shape < 1.0:
        state = state + GAMMA
        boost = (1.0 - to_unit(mix(state))) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x, state = normal(state)
        state = state + GAMMA
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(1.0 - to_unit(mix(state))) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost * d * v, state


@modular
def beta(state: np.uint64, a: float, b: float) -> float:
    """A Beta(a, b) number, a and b > 0, from this state."""
    x, state = gamma(state, a)
    y, state = gamma(state, b)
    if x + y > 0.0:
        return x / (x + y)
    return 1.0 if to_unit(mix(state + GAMMA)) * (a + b) < a else 0.0  # both underflow: the law as a, b → 0


def seed_sequence(seed: int | np.random.SeedSequence | None) -> np.random.SeedSequence:
    """The root of all randomness of one agent or one simulation."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    return np.random.SeedSequence(None if seed is None else whole(seed, "seed", least=0, most=2**128))


def keys(seeds: np.random.SeedSequence, count: int) -> NDArray[np.uint64]:
    """`count` well separated keys."""
    return seeds.generate_state(count, np.uint64).astype(np.uint64)
