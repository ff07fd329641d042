"""Estimates of random rewards for a best guess: those that have the same outcome lend each other their answers."""

from __future__ import annotations

from typing import Any

import numpy as np

AGREE = 2.0  # standard errors that two means may differ by


def pool(edges: Any) -> None:
    """Overwrite what is expected along each edge, where answers are random, by a pooled mean.

    The steps with one outcome, the state that was reached and whether the episode has ended there, often pay alike, and
    have few answers each. The mean of an edge becomes that of all answers with its outcome, unless it differs from that
    of the others by more than AGREE standard errors. Where no answers differ, nothing is changed.
    """
    heard = edges["answered"] > 0
    _, outcome = np.unique(edges["after"], return_inverse=True)
    n, mean = edges["answered"], edges["average"]

    def total(values: Any) -> Any:
        return np.bincount(outcome, weights=values)[outcome]

    count, groups, sums = total(n), total(heard), total(n * mean)
    freedom, others = count - groups, count - n
    variance = np.divide(total(edges["squares"]), freedom, out=np.zeros(n.size), where=freedom > 0)
    several = heard & (others > 0) & (variance > 0.0)
    n, mean, others, count, sums, variance = (part[several] for part in (n, mean, others, count, sums, variance))
    away = np.abs(mean - (sums - n * mean) / others)
    agree = away <= AGREE * np.sqrt(variance * (1.0 / n + 1.0 / others))
    edges["worth"][several] = np.where(agree, sums / count, edges["worth"][several])
