"""The command `sparingly plan`: parse its options, run the plan, print the answer and write the report."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console

from sparingly.errors import InvalidInput
from sparingly.lab import planning, planning_report
from sparingly.problems import real
from sparingly.problems.tables import SEVERAL, SINGLE, from_table


def run(
    data: str, budgets: str, rules: str, learner: str | None, costs: str | None, columns: list[str],
    out: Path | None, numbers: dict[str, Any], rescale: bool, quiet: bool,
) -> None:  # fmt: skip
    """Run the command."""
    console = Console()
    amounts = budgets_from(budgets)
    names = [name.strip() for name in re.split(r",(?![^(]*\))", rules) if name.strip()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", real.DataWarning)
        rounds = read(data, columns, rescale)
    folder = out or Path("results") / "plan" / rounds.name
    chosen = None if learner is None else planning.learner_from(learner, rounds)
    prices = None if costs is None else costs_from(costs, rounds.actions)
    folder.mkdir(parents=True, exist_ok=True)  # before the work, in case it cannot be made
    if not quiet:
        runs = numbers["runs"] * (2 + len(names) * len(amounts))
        console.print(f"{rounds!r}: {runs} runs …", markup=False, highlight=False)
    plan = planning.plan(rounds, amounts, names, chosen, costs=prices, **numbers)
    notes = [*dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, real.DataWarning)), *plan.notes]
    for grid in planning_report.tables(plan):
        console.print(grid)
    for line in planning_report.answers(plan):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for note in notes:
        console.print(f"Warning: {note}", markup=False, highlight=False, soft_wrap=True)
    path = planning_report.write(plan, folder, tuple(notes))
    words = "It contains Python code that starts an agent. The figure and the data are beside it."
    console.print(f"Report: {path}\n{words}", soft_wrap=True, markup=False, highlight=False)


def budgets_from(text: str) -> list[float]:
    """Parse numbers separated by commas; 1_000 is a thousand.

    >>> budgets_from("100, 1_000")
    [100.0, 1000.0]
    """
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidInput(f"--budgets are numbers with commas between them, like 100,300,1000; not {text!r}") from None


def costs_from(text: str, actions: tuple[str, ...]) -> list[float]:
    """Parse the costs of asking: numbers in the order of the actions, or NAME=COST for each of them.

    >>> costs_from("1, 2.5", ("small", "large")), costs_from("large=2.5,small=1", ("small", "large"))
    ([1.0, 2.5], [1.0, 2.5])
    """
    pairs = [part.strip().rpartition("=") for part in text.split(",") if part.strip()]
    named = {name.strip(): cost for name, equals, cost in pairs if equals}
    try:
        values = {name: float(cost) for name, cost in named.items()} if named else [float(cost) for *_, cost in pairs]
    except ValueError:
        raise InvalidInput(f"--costs are numbers, like 1,2,5 or small=1,large=5; not {text!r}") from None
    if isinstance(values, dict):
        if set(values) != set(actions) or len(pairs) != len(values):
            raise InvalidInput(f"--costs must name each action once: {', '.join(actions)}; not {text!r}")
        return [values[action] for action in actions]
    if len(values) != len(actions):
        raise InvalidInput(f"--costs has {len(values)} numbers for {len(actions)} actions: {', '.join(actions)}")
    return values


def columns_from(given: list[str]) -> dict[str, Any] | None:
    """Parse --columns into a mapping: the names after a part, up to the next part, are its columns.

    >>> columns_from(["context=page,action=item", "features=a,b,c"])
    {'context': 'page', 'action': 'item', 'features': ['a', 'b', 'c']}
    """
    parts: dict[str, list[str]] = {}
    current = ""
    for piece in (piece.strip() for text in given for piece in text.split(",")):
        part, equals, name = piece.partition("=")
        if equals and part in (*SINGLE, *SEVERAL):
            current, piece = part, name
        elif not current:
            raise InvalidInput(
                f"--columns must be PART=COLUMN with a part among {', '.join((*SINGLE, *SEVERAL))}, not {piece!r}"
            )
        parts.setdefault(current, []).append(piece)
    single = {part: names[0] for part, names in parts.items() if part in SINGLE and len(names) == 1}
    return {**parts, **single} or None


def read(data: str, columns: list[str], rescale: bool) -> real.Table | real.Logged:
    """Load a built-in data set by its name, or read a file."""
    if data in real.BUILT_IN and not Path(data).exists():
        if columns:
            raise InvalidInput(f"{data} is a built-in set; --columns is for files")
        return real.built_in(data)
    if not Path(data).exists() and not Path(data).suffix:
        raise InvalidInput(f"{data!r} is neither a file nor one of {', '.join(real.BUILT_IN)}")
    return from_table(data, columns_from(columns), rescale)
