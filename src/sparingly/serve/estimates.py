"""Current estimates of all actions with their intervals, and the threshold for asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparingly.interpreter import soon
from sparingly.serve.contract import Estimate, Estimates
from sparingly.serve.factory import granted_by_now
from sparingly.serve.views import finite
from sparingly.tabular import round as rounds

if TYPE_CHECKING:
    from sparingly.serve.live_agent import LiveAgent


def estimate_actions(live: LiveAgent, context: str | int | None) -> Estimates:
    """Estimate every action in one context, or for the features of the latest decision."""
    if live.body.linear:
        return Estimates(_by_features(live), threshold(live), None)
    contexts = live.body.contexts
    u = live.context_index(context if context is not None or contexts is None else 0)
    place = None if contexts is None else contexts[u]
    known, lived = live.agent._family.remembered()
    columns = (
        live.agent.asked[u].tolist(),
        live.agent.answered[u].tolist(),
        live.agent.means[u].tolist(),
        known[u].tolist(),
    )
    retired, gone = live.roster.retired_actions, live.roster.retired_contexts
    listed = [
        _of_arm(live, place, a, round(lived), *numbers)
        for a, numbers in enumerate(zip(*columns, strict=True))
        if a not in retired
    ]
    still = None if contexts is None else [name for place, name in enumerate(contexts) if place not in gone]
    return Estimates(listed, threshold(live), still)


def _of_arm(
    live: LiveAgent, place: str | None, action: int, t: int, asked: int, answered: int, mean: float, known: float
) -> Estimate:
    """The mean reward of an action with the paper's interval around it, on the agent's scale of rewards."""
    body, cell_width = live.body, soon(rounds.cell_width)  # nobody waits for it
    cells = len(body.actions or []) * len(body.contexts or [""])
    name, width = live.action_name(action), float(cell_width(float(asked), t, cells))
    if answered == 0:
        return Estimate(name, place, None, None, None, asked, 0, width)
    low, span = body.rewards.low, body.rewards.high - body.rewards.low
    half = 0.5 * cell_width(known, t, cells)
    middle, bottom, top = (low + span * at for at in (mean, max(mean - half, 0.0), min(mean + half, 1.0)))
    return Estimate(name, place, middle, bottom, top, asked, answered, width)


def _by_features(live: LiveAgent) -> list[Estimate]:
    if live.latest_context is None:
        return []
    values, halves, widths = (column.tolist() for column in live.agent.predict(live.latest_context))
    return [
        Estimate(
            live.action_name(a), None, finite(mean), finite(mean - half), finite(mean + half), None, None, finite(width)
        )
        for a, (mean, half, width) in enumerate(zip(values, halves, widths, strict=True))
    ]


def threshold(live: LiveAgent) -> float | None:
    """The threshold for the next decision, with the budget as it has grown until now."""
    ledger = live.agent.ledger
    granted, _ = granted_by_now(live.record, live.body, live.clock, live.record.decisions)
    before, ledger.granted_units = ledger.granted_units, granted
    bar = live.agent.threshold
    ledger.granted_units = before  # reading an estimate must not change the agent
    return finite(bar)
