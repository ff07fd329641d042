"""Which agents leave memory: those that nobody has used for a while, and the oldest of too many.

They lose nothing by it: a snapshot is saved if applying their records again would take long, and they are loaded again
when they are next needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparingly.serve.live_agent import LiveAgent

IDLE = 600.0  # seconds without a command
LARGEST = 512 * 2**20  # bytes, about, of all agents in memory
AT_ONCE = 100  # agents that leave in one transaction
LEAST = 8_000  # bytes of an agent, whatever its size
BODY = 10  # bytes in memory for each byte of a body: names, and the tables to find them


def size(live: LiveAgent) -> int:
    """About how many bytes an agent takes."""
    return LEAST + BODY * len(live.record.body) + int(live.agent._family.words.nbytes)


def to_leave(agents: Mapping[str, LiveAgent], now: float, idle: float, largest: int) -> list[str]:
    """The names of agents that should leave, the longest unused first."""
    by_age = sorted(agents, key=lambda name: agents[name].used)
    total = sum(size(live) for live in agents.values())
    leaving: list[str] = []
    for name in by_age:
        if total <= largest and agents[name].used > now - idle:
            break
        leaving.append(name)
        total -= size(agents[name])
        if len(leaving) == AT_ONCE:
            break
    return leaving
