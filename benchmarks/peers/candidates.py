"""Everybody who takes part, in the order of the tables."""

from __future__ import annotations

from benchmarks.peers import bandits, labellers, ours
from benchmarks.peers.rounds import Candidate


def everybody() -> list[Candidate]:
    """Ours, then peers that are told the reward of what they did, then peers that are told the label."""
    return [*ours.candidates(), *bandits.candidates(), *labellers.candidates()]
