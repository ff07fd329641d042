"""The parts of a memory lie one after the other: no word is left out, and none belongs to two parts by mistake."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

import sparingly as sp
from sparingly.layout import REST, Over, Shared, layout
from sparingly.numba_support import record

HEAD = record(rows=np.int64, columns=np.int64, alike=np.int64)


class Pair(NamedTuple):
    """A part that has parts."""

    table: Annotated[Any, np.float64, "rows", "columns"]
    count: Annotated[Any, np.int64, 1]


class Memory(NamedTuple):
    """One of each kind of part."""

    own: Any
    head: Annotated[Any, HEAD, 1]
    pool: Annotated[Any, np.int64, REST]
    pooled: Annotated[Any, Over("pool"), np.float64, REST]
    first: Pair
    block: Annotated[Any, Over("first_table"), np.int64, "cells"]
    second: Annotated[Pair, Shared("first", "alike")]
    last: Annotated[Any, np.int64, "rows + 1"]


look, blank = layout(Memory, cells="rows * columns")
look = getattr(look, "py_func", look)


def head_of(rows, columns, alike):
    head = np.zeros(1, dtype=HEAD)
    head[0] = rows, columns, alike
    return head


@pytest.mark.parametrize("alike", [0, 1])
def test_parts_have_the_shapes_that_they_name(alike):
    words = np.append(blank(head_of(2, 3, alike)), [7, 8])
    m = look(words, "mine")
    assert words.size == 3 + (1 if alike else 2) * (6 + 1) + 3 + 2
    assert (m.own, m.head[0].columns, m.pool.tolist()) == ("mine", 3, [7, 8])
    assert [part.shape for part in (*m.first, *m.second, m.block, m.last)] == [(2, 3), (1,), (2, 3), (1,), (6,), (3,)]
    assert np.shares_memory(m.pool, m.pooled) and m.pooled.dtype == np.float64
    m.first.table[1, 2] = 0.5
    assert m.block.view(np.float64).tolist() == [0.0] * 5 + [0.5]
    assert m.second.table[1, 2] == (0.5 if alike else 0.0)


def arrays(part: Any, name: str = "") -> list[tuple[str, Any]]:
    """All arrays of a tuple, with their names."""
    if isinstance(part, np.ndarray):
        return [(name, part)]
    fields = getattr(part, "_fields", ())
    return [found for field in fields for found in arrays(getattr(part, field), f"{name}.{field}")]


OVER = {".policy", ".model.sizes", ".model.weight"}  # what shows other parts once more


@pytest.mark.parametrize(
    "agent",
    [
        sp.Agent(sp.UCB1(3, contexts=2), budget=5, seed=0),
        sp.Agent(sp.MOSS(3), sp.Greedy(policies=2), budget=5, seed=0),
        sp.Agent(sp.OFUL(3), sp.Greedy(policies=2), budget=5, seed=0),
        sp.Agent(sp.OFUL(2), budget=5, seed=0),
        sp.Agent(sp.UCBVI(3, 2, 4), sp.Greedy(), budget=5, seed=0),
        sp.Agent(sp.StationaryUCBVI(3, 2, 4), budget=5, seed=0),
    ],
    ids=lambda agent: f"{type(agent.learner).__name__}, {type(agent.rule).__name__}",
)
def test_every_word_belongs_to_one_part(agent):
    words = agent._family.words
    covered, base = np.zeros(words.size, dtype=int), words.__array_interface__["data"][0]
    for name, part in arrays(agent._family.memory):
        start = (part.__array_interface__["data"][0] - base) // 8
        if name not in OVER or (name == ".policy" and type(agent.learner) is sp.StationaryUCBVI):
            covered[start : start + part.nbytes // 8] += 1
        assert np.shares_memory(part, words) or part.size == 0
    assert (covered == 1).all()
