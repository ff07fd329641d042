"""The grid of a sweep: its TOML file, expanded into cells, each of which is an experiment.

The format is that of experiments (experiment.py), except that a list in place of a value is a grid: each cell takes one
of its values.

title = "How much to ask"
seeds = 10
budget = [100, 300, 1_000]
problem = { type = "hidden_arm", arms = [2, 10], budget = 300 }
rules = ["PaperMatching", { name = "eager", type = "Matching", alpha = [0.5, 1.0] }]
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparingly.errors import InvalidInput
from sparingly.lab import catalogue
from sparingly.lab.experiment import RULES, Experiment, experiment_from, from_toml
from sparingly.simulation.simulate import choose_checkpoints, make_simulator, simulate
from sparingly.validation import shown, whole

# Defaults of a cell: those of an experiment, except that only the end of the runs is kept.
NUMBERS: Mapping[str, Any] = {"rounds": 100_000, "runs": 20, "seed": 0, "checkpoints": 1, "spacing": "log"}
PARTS: Mapping[str, catalogue.Catalogue] = {
    "problem": catalogue.PROBLEMS, "budget": catalogue.BUDGETS,
    "learner": catalogue.LEARNERS, "rule": catalogue.RULES,
}  # fmt: skip
INNER: Mapping[str, catalogue.Catalogue] = {
    "contexts": catalogue.CONTEXTS, "initial": catalogue.CONTEXTS,
    "arms": catalogue.FEATURES, "rewards": catalogue.REWARDS,
}  # fmt: skip
DEFAULTS: Mapping[str, Any] = {"rule": RULES}
KEYS = ("title", *NUMBERS, "seeds", *(key for part in PARTS for key in (part, f"{part}s")))
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Variant:
    """One value of a part: its entry in the file, its label, and the values that it takes from grids."""

    entry: Any
    label: str
    stem: str  # the label without the values taken from grids
    taken: Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One experiment of a sweep. Its id depends on everything that its result depends on, and on nothing else."""

    id: str
    description: Mapping[str, Any]  #: the content of an experiment file with one policy, defaults written out
    labels: Mapping[str, str]  #: problem, learner, rule, schedule
    stems: Mapping[str, str]  #: the same without the values taken from grids
    taken: Mapping[str, Any]  #: what varies within the sweep, and its value here
    place: int  #: in the order of the file


@dataclass(frozen=True)
class Sweep:
    """All cells, in the order of their ids."""

    title: str
    cells: tuple[Cell, ...]


def read_sweep(path: Path, digest: str) -> Sweep:
    """Read a sweep from a TOML file and check all of it; `digest` identifies the code that it will run on."""
    return from_toml(path, lambda data: sweep_from(data, path.stem, digest))


def sweep_from(data: Mapping[str, Any], title: str, digest: str) -> Sweep:
    """Make a sweep from the content of a file."""
    unknown = [key for key in data if key not in KEYS]
    if unknown:
        raise InvalidInput(f"unknown key {unknown[0]!r}; a sweep has {', '.join(KEYS)}")
    numbers = {name: _values(data, name) for name in NUMBERS}
    parts = {part: _variants(data, part) for part in PARTS}
    lists: list[Sequence[Any]] = [*numbers.values(), *parts.values()]
    size = math.prod(len(values) for values in lists if values)
    if size > MOST_CELLS:
        raise InvalidInput(f"{size:,} cells are more than a sweep may have ({MOST_CELLS:,}); make the grid smaller")
    varied = {name for name, values in numbers.items() if len(values) > 1}
    seeds = numbers.pop("seed")
    cells: dict[str, Cell] = {}
    for chosen in _combinations(parts):
        for values in itertools.product(*numbers.values()):
            point = dict(zip(numbers, values, strict=True))
            described = _check(chosen, point)  # it does not depend on the seed
            for seed in seeds:
                cell = _cell(chosen, {**described, **point, "seed": seed}, varied, digest, len(cells))
                if cell.id in cells:
                    same = ", ".join(cell.labels.values())
                    raise InvalidInput(f"two cells are the same: {same}; leave one out")
                cells[cell.id] = cell
    return Sweep(str(data.get("title", title)), tuple(cell for _, cell in sorted(cells.items())))


def _values(data: Mapping[str, Any], name: str) -> list[Any]:
    """The values that a number takes: one or several; `seeds = 10` means the seeds 0 to 9."""
    if name == "seed" and "seeds" in data:
        if "seed" in data:
            raise InvalidInput("`seed` and `seeds` are the same; leave one of them out")
        seeds = data["seeds"]
        values = seeds if isinstance(seeds, list) else list(range(whole(seeds, "seeds", most=MOST_CELLS)))
    else:
        given = data.get(name, NUMBERS[name])
        values = given if isinstance(given, list) else [given]
    if not values:
        raise InvalidInput(f"{name} is an empty list: the grid would have no cells")
    for value in values:
        if name != "spacing":
            whole(value, name, least=0 if name == "seed" else 1, most=2**128 if name == "seed" else 2**53)
    twice = _twice(map(str, values))
    if twice is not None:
        raise InvalidInput(f"{name} has {twice} twice; leave one of them out")
    return values


def _variants(data: Mapping[str, Any], part: str) -> list[Variant]:
    """All values that a part takes; none if the problem decides."""
    if part in data and f"{part}s" in data:
        raise InvalidInput(f"`{part}` and `{part}s` are the same; leave one of them out")
    given = data.get(part, data.get(f"{part}s", DEFAULTS.get(part)))
    if given is None:
        if part == "problem":
            raise InvalidInput('a sweep needs a `problem`, for example { type = "Arms", means = [0.6, 0.5] }')
        return []
    if given == []:
        raise InvalidInput(f"{part} is an empty list: the grid would have no cells")
    variants = [v for entry in (given if isinstance(given, list) else [given]) for v in _expand(part, entry)]
    twice = _twice(variant.label for variant in variants)
    if twice is not None:
        raise InvalidInput(f"two {part}s are called {twice!r}; give one of them another `name`")
    return variants


def _twice(names: Iterable[str]) -> str | None:
    """The first name that occurs twice, if any does."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _expand(part: str, entry: Any) -> Iterator[Variant]:
    """Expand one entry of the file into variants, one for each point of the grid that its lists span."""
    if not isinstance(entry, dict):
        number = isinstance(entry, int | float) and not isinstance(entry, bool)
        yield Variant(entry, str(entry), "Fixed" if number else str(entry), {f"{part}.amount": entry} if number else {})
        return
    name = entry.get("name")
    own_name = name is not None and "name" not in _accepted(PARTS[part], entry)
    if own_name and (not isinstance(name, str) or not name):
        raise InvalidInput(f"the name of a {part} must be a text, not {shown(name)}")
    plain = {key: value for key, value in entry.items() if not (own_name and key == "name")}
    for point, taken in _points(PARTS[part], plain, part):
        inside = ", ".join(f"{path.removeprefix(part + '.')}={_short(value)}" for path, value in taken.items())
        rest = {key: value for key, value in point.items() if f"{part}.{key}" not in taken}
        if own_name:
            yield Variant(point, f"{name}({inside})" if inside else str(name), str(name), taken)
        else:
            yield Variant(point, _describe(point), _describe(rest), taken)


def _points(names: catalogue.Catalogue, entry: Any, path: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The points of the grid within a table, each with the values that it takes from lists."""
    if not isinstance(entry, dict):
        yield entry, {}
        return
    accepted = _accepted(names, entry)
    choices = []
    for key, value in entry.items():
        where, inner = f"{path}.{key}", INNER.get(key, {})
        if isinstance(value, list) and key in accepted and not _takes_lists(accepted[key]):
            if not value:
                raise InvalidInput(f"{where} is an empty list: the grid would have no cells")
            choices.append(
                [(point, {where: _name_of(point)} | taken) for v in value for point, taken in _points(inner, v, where)]
            )
        else:
            choices.append(list(_points(inner, value, where)))
    for combination in itertools.product(*choices):
        taken = {name: value for _, some in combination for name, value in some.items()}
        yield {key: point for key, (point, _) in zip(entry, combination, strict=True)}, taken


def _accepted(names: catalogue.Catalogue, entry: Mapping[str, Any]) -> Mapping[str, inspect.Parameter]:
    kind = entry.get("type")
    return inspect.signature(names[kind]).parameters if isinstance(kind, str) and kind in names else {}


def _takes_lists(parameter: inspect.Parameter) -> bool:
    """Whether a list is one value of this parameter (the means of arms), not a grid of values."""
    return any(word in str(parameter.annotation) for word in ("ArrayLike", "Any"))


def _name_of(point: Any) -> Any:
    return _describe(point) if isinstance(point, dict) else point


def _describe(entry: Mapping[str, Any]) -> str:
    """A short name: the type, and the parameters if there are any."""
    parameters = ", ".join(f"{name}={_short(value)}" for name, value in entry.items() if name != "type")
    return f"{entry.get('type')}({parameters})" if parameters else str(entry.get("type"))


def _short(value: Any) -> str:
    """A value as part of a name; long ones are cut, with a few digits of their hash to tell them apart."""
    text = _describe(value) if isinstance(value, dict) else str(value)
    return text if len(text) <= 40 else f"{text[:30]}…#{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _combinations(parts: Mapping[str, Sequence[Variant]]) -> Iterator[dict[str, Variant]]:
    """All combinations of a problem, a budget, a learner and a rule; some problems bring their own budget."""
    without = [p for p in parts["problem"] if not _brings_budget(p.entry)]
    if parts["budget"] and not without:
        raise InvalidInput("the problem brings its own budget; leave `budget` out")
    for problem in parts["problem"]:
        some = {**parts, "problem": [problem]}
        if problem not in without:
            some["budget"] = []
        given = {name: variants for name, variants in some.items() if variants}
        for chosen in itertools.product(*given.values()):
            yield dict(zip(given, chosen, strict=True))


def _brings_budget(entry: Any) -> bool:
    kind = entry.get("type") if isinstance(entry, dict) else entry
    made = catalogue.PROBLEMS.get(kind) if isinstance(kind, str) else None
    return made is not None and "Scenario" in str(inspect.signature(made).return_annotation)


def _check(chosen: Mapping[str, Variant], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Build what a cell would run, without running it, and return the parts of its description."""
    described = {name: _in_full(chosen[name].entry) for name in ("problem", "budget") if name in chosen}
    described |= {f"{name}s": [_in_full(chosen[name].entry)] for name in ("learner", "rule") if name in chosen}
    experiment = experiment_from({**described, **numbers}, title="")
    _, learner, rule = experiment.policies[0]
    marks = choose_checkpoints(experiment.rounds, experiment.checkpoints, experiment.spacing)
    try:
        make_simulator(experiment.problem, learner, rule, experiment.budget, marks, skip=True)
    except InvalidInput as error:
        raise InvalidInput(f"{', '.join(variant.label for variant in chosen.values())}: {error}") from None
    return {**described, "learners": described.get("learners", [_in_full(type(learner).__name__)])}


def _in_full(entry: Any) -> Any:
    """Write a part in its long form, so that two ways to say the same thing give the same id."""
    if isinstance(entry, str):
        return {"type": entry}
    if isinstance(entry, int | float) and not isinstance(entry, bool):
        return {"type": "Fixed", "amount": entry}
    return entry


def _cell(
    chosen: Mapping[str, Variant], description: Mapping[str, Any], varied: set[str], digest: str, place: int
) -> Cell:
    text = json.dumps([description, digest], sort_keys=True, default=str)
    named = {"problem": chosen["problem"], "rule": chosen["rule"]}
    learner = description["learners"][0]["type"]
    named["learner"] = chosen.get("learner", Variant(learner, learner, learner, {}))
    named["schedule"] = chosen.get("budget", Variant(None, "the problem's", "the problem's", {}))
    labels = {part: variant.label for part, variant in named.items()}
    stems = {part: variant.stem for part, variant in named.items()}
    taken = {name: value for variant in chosen.values() for name, value in variant.taken.items()}
    taken |= {name: description[name] for name in varied if name != "seed"}
    return Cell(
        hashlib.sha256(text.encode()).hexdigest()[:20], description, labels, stems, dict(sorted(taken.items())), place
    )


def run_cell(description: Mapping[str, Any]) -> dict[str, Any]:
    """Run a cell on one thread and return its columns: one row for each checkpoint of each run."""
    (_, result), *_ = experiment_of(description).run(jobs=1, progress=False)
    runs, marks = result.regret.shape
    columns = {name: getattr(result, name).ravel() for name in ("regret", "asked", "spent", "budget")}
    return {
        "run": np.repeat(np.arange(runs), marks), "round": np.tile(result.rounds, runs), **columns,
        "refused": np.repeat(result.refused, marks),
    }  # fmt: skip


def experiment_of(description: Mapping[str, Any]) -> Experiment:
    """The experiment that a cell stands for."""
    return experiment_from(dict(description), title="")


@dataclass(frozen=True)
class CellOutcome:
    """What a worker returns for a cell: its columns, or a traceback."""

    id: str
    columns: Mapping[str, Any] | None
    error: str = ""


Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Attempt:
    """What a worker receives: how to run a cell, and the digest of the code to run it on ("": not checked)."""

    run: Run = run_cell
    digest: str = ""

    def __call__(self, cell: Cell) -> CellOutcome:
        try:
            if self.digest:
                self.compare()
            return CellOutcome(cell.id, self.run(cell.description))
        except Exception:  # whatever it is, the other cells must go on
            return CellOutcome(cell.id, None, traceback.format_exc())

    def compare(self) -> None:
        """Refuse to run on other code than that of the process that started the sweep: results would not compare."""
        from sparingly.lab.reproduce import code_digest  # takes a second to import, and only remote workers need it

        if code_digest() != self.digest:
            raise RuntimeError("this worker has another version of sparingly or of the packages beneath it")


def warm_up(cells: Sequence[Cell]) -> None:
    """Compile what the cells need and cache it on disk, so that worker processes need not all do so at once."""
    kinds = {tuple(_kind(cell.description[part]) for part in ("problem", "learners", "rules")): cell for cell in cells}
    for cell in kinds.values():
        experiment = experiment_of(cell.description)
        _, learner, rule = experiment.policies[0]
        rounds = min(experiment.rounds, 50)
        simulate(experiment.problem, learner, rule, experiment.budget, rounds=rounds, runs=1, jobs=1, progress=False)


def _kind(entry: Any) -> str:
    first = entry[0] if isinstance(entry, list) else entry
    return str(first["type"])
