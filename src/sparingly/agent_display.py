"""What people see of an agent: a decision explained, a table for a notebook, a figure."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput, MissingExtra
from sparingly.interpreter import soon
from sparingly.protocol import Decision
from sparingly.tabular.round import cell_width
from sparingly.validation import shown

if TYPE_CHECKING:
    from sparingly.agent import Agent

MOST_ROWS = 60  # of the table in a notebook
MOST_PANELS = 12  # contexts in a figure


def budget_line(agent: Agent) -> str:
    """What was granted, spent and is left."""
    ledger = agent.ledger
    line = f"{ledger.spent:g} of {ledger.granted:g} spent, {ledger.left:g} left"
    return line + (f"; {ledger.refused} asks refused" if ledger.refused else "")


def explain(agent: Agent, decision: Decision) -> str:
    """A decision in words: what was chosen and why, whether it is asked about and why, and the budget."""
    if not isinstance(decision, Decision):
        raise InvalidInput(f"explain takes the decision that decide() has returned, not {shown(decision)}")
    lines = [f"Decision {decision.id}: {decision.action!r}. {decision.reason}"]
    if not math.isnan(decision.threshold):
        side = "below" if decision.width < decision.threshold else "at or above"
        threshold = "∞" if math.isinf(decision.threshold) else f"{decision.threshold:.3g}"
        lines.append(f"Its interval was {decision.width:.3g} wide, {side} the threshold of {threshold}.")
    lines.append(f"Budget: {budget_line(agent)}.")
    return "\n".join(lines)


def cells(agent: Agent) -> list[tuple[Any, Any, float, float, int, int]]:
    """Context, action, mean, half of the interval's width, asks and answers of every cell; for arms."""
    asked, means = agent.asked, agent.means
    if asked.ndim != 2:
        raise InvalidInput(
            "a table or figure of actions is for arms; for episodes look at values, visits and best_guess"
        )
    answered, half = agent.answered + agent.taught, half_widths(agent)
    return [
        (
            agent.context_name(u),
            agent.action_name(a),
            float(means[u, a]),
            float(half[u, a]),
            int(asked[u, a]),
            int(answered[u, a]),
        )
        for u, a in np.ndindex(asked.shape)
    ]


def half_widths(agent: Agent) -> NDArray[np.float64]:
    """Half of the paper's interval for each cell, counting answers, on the agent's scale of rewards."""
    low, high = agent.rewards or (0.0, 1.0)
    answered, rounds = agent._family.remembered()
    widths = [soon(cell_width)(float(n), round(rounds), answered.size) for n in answered.ravel()]
    return np.reshape(widths, answered.shape) * 0.5 * (high - low)


def as_html(agent: Agent) -> str:
    """For notebooks: who decides, the budget, and for arms what is known of each action."""
    who = f"<b>{type(agent.learner).__name__}</b> with {html.escape(repr(agent.rule))}"
    head = f"<p>{who}: {agent.decisions:,} decisions. Budget: {html.escape(budget_line(agent))}.</p>"
    try:
        rows = cells(agent)
    except InvalidInput:
        return head
    shown = rows[:MOST_ROWS]
    several = agent.asked.shape[0] > 1
    titles = [*(["context"] if several else []), "action", "mean reward", "asks", "answers"]
    lines = ["<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"]
    for context, action, mean, half, asks, answers in shown:
        value = "unknown" if math.isnan(mean) else f"{mean:.3g} ± {half:.2g}"
        parts = [*([context] if several else []), action, value, asks, answers]
        lines.append("<tr>" + "".join(f"<td>{html.escape(str(part))}</td>" for part in parts) + "</tr>")
    more = f"<p>… and {len(rows) - len(shown):,} more</p>" if len(rows) > len(shown) else ""
    return f"{head}<table>{''.join(lines)}</table>{more}"


def plot(agent: Agent, axes: Any = None) -> Any:
    """Mean rewards with their intervals, a panel for each context; the axes are returned."""
    rows = cells(agent)
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtra("Agent.plot", "lab") from None
    contexts, arms = agent.asked.shape
    shown = min(contexts, MOST_PANELS)
    if axes is None:
        columns = min(shown, 3)
        size = (4.0 * columns, (0.9 + 0.35 * arms) * -(-shown // columns))
        figure, grid = pyplot.subplots(-(-shown // columns), columns, figsize=size, squeeze=False, sharex=True)
        axes = grid.ravel()
        for empty in axes[shown:]:
            empty.set_visible(False)
        figure.set_layout_engine("constrained")
    low, high = agent.rewards or (0.0, 1.0)
    for u, ax in zip(range(shown), np.ravel(axes), strict=False):
        for a, (_, _, mean, half, _, answers) in enumerate(rows[u * arms : (u + 1) * arms]):
            if not math.isnan(mean):
                reach = [[min(half, mean - low)], [min(half, high - mean)]]
                ax.errorbar(mean, a, xerr=np.maximum(reach, 0.0), fmt="o", color="C0", capsize=3)
            ax.text(
                1.02, a, f"{answers}", transform=ax.get_yaxis_transform(), va="center", fontsize="small", color="0.4"
            )
        ax.set_yticks(range(arms), [str(agent.action_name(a)) for a in range(arms)])
        ax.set_xlim(low, high)
        ax.set_ylim(arms - 0.5, -0.5)
        ax.set_xlabel("mean reward, with interval; at the right: answers")
        if contexts > 1:
            ax.set_title(str(agent.context_name(u)))
    return axes if np.ndim(axes) and np.size(axes) > 1 else np.ravel(axes)[0]
