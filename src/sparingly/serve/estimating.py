"""What is known of each action at this moment: estimates with their intervals, and the threshold for asking."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sparingly.ledger import GRANTED
from sparingly.rules import width as width_of
from sparingly.serve.contract import OFUL, Estimate, Estimates
from sparingly.serve.making import grown

if TYPE_CHECKING:
    from sparingly.serve.desk import Desk


def estimates(desk: Desk, context: str | int | None) -> Estimates:
    """What is known of every action, in one context or for the latest features."""
    if isinstance(desk.body.learner, OFUL):
        return Estimates(_by_features(desk), threshold(desk), None)
    contexts = desk.body.contexts
    u = desk.context_index(context if context is not None or contexts is None else 0)
    place = None if contexts is None else contexts[u]
    columns = (desk.agent.asked[u].tolist(), desk.agent.answered[u].tolist(), desk.agent.means[u].tolist())
    listed = [_of_arm(desk, place, a, *numbers) for a, numbers in enumerate(zip(*columns, strict=True))]
    return Estimates(listed, threshold(desk), contexts)


def _of_arm(desk: Desk, place: str | None, action: int, asked: int, answered: int, mean: float) -> Estimate:
    """The mean of the answers, and the interval of the paper around it, on the scale of the answers."""
    body, rounds = desk.body, max(desk.agent.decisions, 1)
    cells = len(body.actions or []) * len(body.contexts or [""])
    name, width = desk.action_name(action), float(width_of(asked, rounds, cells))
    if answered == 0:
        return Estimate(name, place, None, None, None, asked, 0, width)
    low, span = body.rewards.low, body.rewards.high - body.rewards.low
    half = 0.5 * width_of(answered, rounds, cells)
    middle, bottom, top = (low + span * at for at in (mean, max(mean - half, 0.0), min(mean + half, 1.0)))
    return Estimate(name, place, middle, bottom, top, asked, answered, width)


def _by_features(desk: Desk) -> list[Estimate]:
    if desk.latest is None:
        return []
    values, halves, widths = (column.tolist() for column in desk.agent.predict(desk.latest))
    return [
        Estimate(desk.action_name(a), None, mean, mean - half, mean + half, None, None, width)
        for a, (mean, half, width) in enumerate(zip(values, halves, widths, strict=True))
    ]


def threshold(desk: Desk) -> float | None:
    """The threshold that the next decision will be held against, as far as it is known beforehand."""
    account = desk.agent.ledger.account
    granted, _ = grown(desk.row, desk.body, desk.now, desk.row.decisions)
    before, account[GRANTED] = int(account[GRANTED]), granted
    bar = desk.agent.threshold
    account[GRANTED] = before  # looking changes nothing
    return None if math.isinf(bar) else bar
