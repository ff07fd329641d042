"""`sparingly sweep`: run the cells of a grid on any backend, resume after an interruption, write one Parquet file.

Each cell that was run is kept in a file of its own, written atomically and named after everything that its content
depends on. So the same command, run again after whatever happened, resumes. The result is put together from these files
in the order of their names: it has the same bytes wherever, by however many workers and in whatever order cells ran.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow
import pyarrow.parquet
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sparingly.errors import SparinglyError
from sparingly.lab.backends import Backend, WorkerDied
from sparingly.lab.progress_screen import SweepScreen
from sparingly.lab.reproduce import atomic_write, code_digest
from sparingly.lab.styles import looks
from sparingly.lab.sweep_grid import Attempt, Cell, Run, Sweep, run_cell, warm_up
from sparingly.simulation.simulate import mean_and_half

SCHEMA = pyarrow.schema(
    {
        "run": pyarrow.int64(), "round": pyarrow.int64(), "regret": pyarrow.float64(), "asked": pyarrow.int64(),
        "spent": pyarrow.float64(), "budget": pyarrow.float64(), "refused": pyarrow.int64(),
    }
)  # fmt: skip
WRITING: Mapping[str, Any] = {"compression": "zstd", "write_page_checksum": True}  # the bytes of files depend on it
ROWS_AT_ONCE = 100_000  # rows of the result that are collected in memory before they are written
MOST_TABLES, MOST_ROWS = 6, 40  # on the screen


@dataclass(frozen=True)
class CellStore:
    """The folder with the cells that were run, and the tracebacks of those that failed."""

    folder: Path

    def path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.id}.parquet"

    def failure_path(self, cell: Cell) -> Path:
        return self.folder / "failures" / f"{cell.id}.txt"

    def prepare(self) -> None:
        """Make the folders before the work, in case they cannot be made."""
        for name in ("cells", "failures"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def has(self, cell: Cell) -> bool:
        """Whether the cell is done; a damaged file does not count."""
        try:
            self.load(cell)
        except (OSError, pyarrow.ArrowException):
            return False
        return True

    def load(self, cell: Cell) -> pyarrow.Table:
        """Read the rows of a cell."""
        table = pyarrow.parquet.read_table(
            self.path(cell), page_checksum_verification=True, memory_map=False, use_threads=False, partitioning=None
        )
        if table.schema != SCHEMA:
            raise pyarrow.ArrowInvalid("not the columns of a cell")
        return table

    def keep(self, cell: Cell, columns: Mapping[str, Any]) -> None:
        """Write the cell atomically: its file is complete, or there is none."""
        about = {"description": json.dumps(cell.description, sort_keys=True, ensure_ascii=False, default=str)}
        table = pyarrow.table(dict(columns), schema=SCHEMA.with_metadata(about))
        with atomic_write(self.path(cell)) as draft:
            pyarrow.parquet.write_table(table, draft, **WRITING)
        self.failure_path(cell).unlink(missing_ok=True)

    def record(self, cell: Cell, error: str) -> None:
        """Write the traceback of a cell that failed."""
        about = json.dumps(cell.description, ensure_ascii=False, indent=1, default=str)
        with atomic_write(self.failure_path(cell)) as draft:
            draft.write_text(f"{about}\n\n{error}", encoding="utf-8")


@dataclass
class SeedGroup:
    """The last checkpoints of all runs of the cells that differ only in the seed."""

    cell: Cell  # one of them
    regret: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    spent: list[Any] = field(default_factory=list)
    refused: list[Any] = field(default_factory=list)

    def add(self, rows: pyarrow.Table) -> None:
        """Take the last checkpoint of each run of a cell."""
        rounds = rows.column("round").to_numpy()
        last = rounds == rounds.max()
        for name in ("regret", "asked", "spent", "refused"):
            getattr(self, name).extend(rows.column(name).to_numpy()[last])

    def interval(self) -> tuple[float, float]:
        """The mean regret, and the half-width of its 95 % interval (Student's t); NaN for a single run."""
        return mean_and_half(np.array(self.regret))


@dataclass(frozen=True)
class SweepResult:
    """What `run_sweep` returns: groups of cells that differ only in the seed, and the errors of failed cells, by id."""

    groups: tuple[SeedGroup, ...]
    failures: Mapping[str, str]


def run_sweep(
    sweep: Sweep, out: Path, backend: Backend, retries: int = 2, screen: SweepScreen | None = None, run: Run = run_cell
) -> SweepResult:
    """Run the cells that are not done yet, then write the rows of all cells to results.parquet in `out`.

    Parameters:
    - `sweep`: from `read_sweep`.
    - `out`: the folder for the results. Cells that are done there are not run again.
    - `backend`: from `backends.open_backend`.
    - `retries`: how often a cell that fails is tried again.
    - `screen`: shows progress.
    - `run`: what runs a cell.

    Returns: groups of cells that differ only in the seed, and the errors of failed cells.
    """
    store = CellStore(out)
    store.prepare()
    todo = [cell for cell in sweep.cells if not store.has(cell)]
    failures: dict[str, str] = {}
    with screen or SweepScreen(Console(), len(sweep.cells), quiet=True) as view:
        view.resume(len(sweep.cells) - len(todo))
        if todo:
            with suppress(Exception):  # the error will come up again, as the failure of a cell
                warm_up(todo)
            attempt = Attempt(run, code_digest() if backend.remote else "")
            failures = _run_until_done(todo, backend, attempt, store, retries, view)
    there = [cell for cell in sweep.cells if cell.id not in failures]
    return SweepResult(write_results(out / "results.parquet", there, store), failures)


def _run_until_done(
    todo: Sequence[Cell], backend: Backend, attempt: Attempt, store: CellStore, retries: int, view: SweepScreen
) -> dict[str, str]:
    """Run cells until each is done or has failed too often; the cells of a worker that died are run again.

    It is not known which cell killed a worker. Cells that were running too often when one died are run one at a time,
    to find the one at fault without blaming the others.
    """
    pending = {cell.id: cell for cell in todo}
    tries: Counter[str] = Counter()
    suspected: Counter[str] = Counter()
    failures: dict[str, str] = {}

    def failed(id: str, error: str) -> None:
        tries[id] += 1
        if tries[id] > retries:
            cell = pending.pop(id)
            failures[id] = error
            store.record(cell, error)
            view.tick(failed=True)

    while pending:
        unsuspected = [cell for cell in pending.values() if suspected[cell.id] <= retries]
        batch = unsuspected or [*pending.values()][:1]
        under_way: set[str] = set()
        try:
            for outcome in backend.each(attempt, _note_started(batch, under_way), apart=not unsuspected):
                under_way.discard(outcome.id)
                if outcome.columns is None:
                    failed(outcome.id, outcome.error)
                else:
                    store.keep(pending.pop(outcome.id), outcome.columns)
                    view.tick()
        except WorkerDied as death:
            if not under_way:
                raise SparinglyError(f"workers die before they begin ({death}); what is done is kept") from death
            if unsuspected:
                suspected.update(under_way)
            else:
                for guilty in under_way:
                    failed(guilty, f"{death}\n\nthe worker process died each time it ran this cell")
    return failures


def _note_started(cells: Iterable[Cell], under_way: set[str]) -> Iterator[Cell]:
    for cell in cells:
        under_way.add(cell.id)
        yield cell


def write_results(path: Path, cells: Sequence[Cell], store: CellStore) -> tuple[SeedGroup, ...]:
    """Write one Parquet file with all rows of these cells, in their order; each row describes its cell."""
    kinds = column_types(cells)
    words = ("cell", "problem", "learner", "rule", "schedule")
    schema = pyarrow.schema(
        {name: pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) for name in words}
        | {"seed": pyarrow.string() if any(c.description["seed"] >= 2**63 for c in cells) else pyarrow.int64()}
        | kinds
        | {name: SCHEMA.field(name).type for name in SCHEMA.names}
    )
    groups: dict[Any, SeedGroup] = {}
    with atomic_write(path) as draft, pyarrow.parquet.ParquetWriter(draft, schema, **WRITING) as writer:
        waiting: list[pyarrow.Table] = []
        for cell in cells:
            rows = store.load(cell)
            groups.setdefault((*cell.labels.values(), *cell.taken.items()), SeedGroup(cell)).add(rows)
            own = {"cell": cell.id, **cell.labels, "seed": cell.description["seed"]}
            own |= {name: cell.taken.get(name) for name in kinds}
            columns = {name: _repeated(value, rows.num_rows, schema.field(name).type) for name, value in own.items()}
            columns |= {name: rows.column(name) for name in SCHEMA.names}
            waiting.append(pyarrow.table([columns[name] for name in schema.names], schema=schema))
            if sum(table.num_rows for table in waiting) >= ROWS_AT_ONCE:
                writer.write_table(pyarrow.concat_tables(waiting).unify_dictionaries())
                waiting.clear()
        if waiting:
            writer.write_table(pyarrow.concat_tables(waiting).unify_dictionaries())
    return tuple(sorted(groups.values(), key=lambda group: group.cell.place))


def _repeated(value: Any, rows: int, kind: pyarrow.DataType) -> pyarrow.Array:
    text = pyarrow.types.is_string(kind) or pyarrow.types.is_dictionary(kind)
    plain = None if value is None else str(value) if text else value
    base = pyarrow.string() if text else kind
    return pyarrow.array([plain] * rows, type=base).cast(kind)


def column_types(cells: Sequence[Cell]) -> dict[str, pyarrow.DataType]:
    """What varies within the sweep, by name, and the type of its column: integers, floats or text."""
    values: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.taken.items():
            values.setdefault(name, []).append(value)
    kinds = {}
    for name in sorted(values):
        whole = all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in values[name])
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values[name])
        kinds[name] = pyarrow.int64() if whole else pyarrow.float64() if numbers else pyarrow.string()
    return kinds


def tables(title: str, groups: Sequence[SeedGroup]) -> Iterator[Table]:
    """Tables of the results: one for each problem, with a row for all cells that differ only in the seed."""
    problems = list(dict.fromkeys(group.cell.labels["problem"] for group in groups))
    for name in problems[:MOST_TABLES]:
        of_it = [group for group in groups if group.cell.labels["problem"] == name]
        view = _table(f"{title}: {name}" if len(problems) > 1 else title, of_it, groups)
        if len(problems) > MOST_TABLES and name == problems[MOST_TABLES - 1]:
            view.caption = f"{view.caption}; {len(problems) - MOST_TABLES:,} more problems are in the data"
        yield view


def _table(title: str, rows: Sequence[SeedGroup], groups: Sequence[SeedGroup]) -> Table:
    """Make one table; parts that never vary in the sweep are left out."""
    view = Table(title=escape(title), caption="± is a 95 % interval of the mean")
    parts = [part for part in ("schedule", "learner", "rule") if len({g.cell.labels[part] for g in groups}) > 1]
    numbers = sorted({name for g in groups for name in g.cell.taken if "." not in name})
    for name in (*parts, *numbers):
        view.add_column("budget" if name == "schedule" else name)
    for name in ("runs", "regret", "±", "asked", "spent", "refused"):
        view.add_column(name, justify="right", no_wrap=True)
    for g in rows[:MOST_ROWS]:
        mean, half = g.interval()
        words = [escape(g.cell.labels[part]) for part in parts] + [f"{g.cell.taken.get(name, '')}" for name in numbers]
        ends = (f"{float(np.mean(g.asked)):,.0f}", f"{float(np.mean(g.spent)):,.0f}", f"{sum(g.refused):,}")
        view.add_row(*words, f"{len(g.regret):,}", f"{mean:,.1f}", f"{half:,.1f}", *ends)
    if len(rows) > MOST_ROWS:
        view.caption = f"{view.caption}; {len(rows) - MOST_ROWS:,} more rows are in the data"
    return view


def figure(title: str, groups: Sequence[SeedGroup]) -> Figure:
    """Plot mean regret with its interval over the number with the most values, or over the rules if none varies."""
    axis = _main_axis(groups)
    panels: dict[str, dict[str, list[tuple[Any, float, float]]]] = {}
    drawn = [g for g in groups if axis is None or axis in g.cell.taken]
    for g in drawn:
        panel, line = _place(g.cell, axis, drawn)
        at = g.cell.taken[axis] if axis else g.cell.labels["rule"]
        panels.setdefault(panel, {}).setdefault(line, []).append((at, *g.interval()))
    shown = list(panels)[:MOST_TABLES]
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        columns = min(len(shown), 3)
        rows = -(-len(shown) // 3)
        fig = Figure(figsize=(5.4 * columns, 4.2 * rows), layout="constrained")
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for place, name in enumerate(shown):
            _draw(axes[place], name, panels[name], axis)
        for empty in axes[len(shown) :]:
            empty.set_visible(False)
        more = f" (the first {len(shown)} of {len(panels)} problems)" if len(panels) > len(shown) else ""
        fig.suptitle(title + more, parse_math=False)
    return fig


def _main_axis(groups: Sequence[SeedGroup]) -> str | None:
    cells = [g.cell for g in groups]
    numeric = [name for name, kind in column_types(cells).items() if kind != pyarrow.string()]
    values = {name: len({cell.taken[name] for cell in cells if name in cell.taken}) for name in numeric}
    return max((name for name in values if values[name] > 1), key=lambda name: values[name], default=None)


def _place(cell: Cell, axis: str | None, groups: Sequence[SeedGroup]) -> tuple[str, str]:
    """The panel and the line that a cell belongs to: its problem, and whatever else varies besides the axis."""
    owner = (axis or "rule").partition(".")[0].replace("budget", "schedule")
    names = {part: (cell.stems if part == owner else cell.labels)[part] for part in cell.labels}
    inner = [f"{n}={v}" for n, v in cell.taken.items() if n != axis and (n.split(".")[0] == owner or "." not in n)]
    inner = [text.removeprefix("budget.") for text in inner if axis]
    words = []
    for part in ("schedule", "learner", "rule"):
        others = {(g.cell.stems if part == owner else g.cell.labels)[part] for g in groups}
        if len(others) > 1 and (part != owner or axis):
            words.append(names[part])
    return names["problem"], " · ".join([*words, *inner]) or cell.labels["rule"]


def _draw(axis: Any, title: str, lines: Mapping[str, Sequence[tuple[Any, float, float]]], name: str | None) -> None:
    for (label, points), look in zip(lines.items(), looks(list(lines)), strict=True):
        x, mean, half = zip(*(sorted(points) if name else points), strict=True)
        style = {**look, "linestyle": look["linestyle"] if name else "none", "markersize": 5}
        axis.errorbar(x, mean, yerr=np.nan_to_num(half), label=label, capsize=3, **style)
    numbers = [x for points in lines.values() for x, _, _ in points]
    if name and min(numbers) > 0 and max(numbers) >= 8 * min(numbers):
        axis.set_xscale("log")
    axis.set_title(title, parse_math=False, fontsize=10)
    axis.set_xlabel(name or "rule")
    axis.set_ylabel("regret at the end: mean, 95 % interval")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25)
    axis.legend(frameon=False, fontsize=8)
