"""Experiments as data: a problem, a budget, and the policies (learner × rule) to compare, read from TOML.

title = "Ten arms"
rounds = 100_000
budget = { type = "Fixed", amount = 10_000 }
problem = { type = "Arms", means = [0.6, 0.5, 0.5] }
learners = ["UCB1"]
rules = ["Greedy", "PaperMatching", "ExactMatching", "BalancedMatching"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sparingly.budgets import Budget, as_budget
from sparingly.errors import InvalidInput
from sparingly.lab import catalogue
from sparingly.problems import ContextualArms, Episodic, Labels, Linear, Scenario
from sparingly.simulation.simulate import Simulation, simulate
from sparingly.validation import choice, whole

T = TypeVar("T")
RULES = ["Greedy", "PaperMatching", "ExactMatching", "BalancedMatching"]  # unless a file names others
KEYS = ("title", "rounds", "runs", "seed", "checkpoints", "spacing", "problem", "budget", "learners", "rules")


@dataclass(frozen=True)
class Experiment:
    """One problem under one budget, and the policies to compare on it."""

    title: str
    problem: ContextualArms | Linear | Labels | Episodic
    budget: Budget
    policies: tuple[tuple[str, Any, Any], ...]  #: label, learner, rule
    rounds: int = 100_000
    runs: int = 20
    seed: int = 0
    checkpoints: int = 200
    spacing: Any = "log"

    def run(self, jobs: int | None = None, progress: bool | None = None) -> Iterator[tuple[str, Simulation]]:
        """Simulate the policies one after the other, on the same contexts, budgets and noise."""
        for label, learner, rule in self.policies:
            yield label, simulate(
                self.problem, learner, rule, self.budget, rounds=self.rounds, runs=self.runs, seed=self.seed,
                checkpoints=self.checkpoints, spacing=self.spacing, jobs=jobs, progress=progress,
            )  # fmt: skip


def read_experiment(path: Path) -> Experiment:
    """Read an experiment from a TOML file; an error names the file and the place."""
    return from_toml(path, lambda data: experiment_from(data, title=path.stem))


def from_toml(path: Path, make: Callable[[dict[str, Any]], T]) -> T:
    """Read a TOML file and pass its content to `make`; an error names the file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from None
    try:
        return make(data)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def experiment_from(data: dict[str, Any], title: str) -> Experiment:
    """Make an experiment from the content of a file."""
    unknown = [key for key in data if key not in KEYS]
    if unknown:
        raise InvalidInput(f"unknown key {unknown[0]!r}; an experiment has {', '.join(KEYS)}")
    if "problem" not in data:
        raise InvalidInput('an experiment needs a `problem`, for example { type = "Arms", means = [0.6, 0.5] }')
    problem, budget = _problem_and_budget(data)
    sizes: dict[str, Any]
    if isinstance(problem, Episodic):
        sizes, default = {"states": problem.states, "actions": problem.actions, "horizon": problem.horizon}, "UCBVI"
    elif isinstance(problem, Linear):
        sizes, default = {"dim": problem.dim}, "OFUL"
    elif isinstance(problem, Labels):
        sizes, default = {"dim": problem.dim, "classes": problem.classes}, "Softmax"
    else:
        sizes, default = {"contexts": problem.shape[0], "arms": problem.shape[1]}, "UCB1"
    made_learners = [
        (_label(entry), catalogue.build(catalogue.LEARNERS, "learner", entry, **sizes))
        for entry in _listed(data.get("learners", [default]), "learners")
    ]
    made_rules = [
        (_label(entry), catalogue.build(catalogue.RULES, "rule", entry))
        for entry in _listed(data.get("rules", RULES), "rules")
    ]
    policies = [
        (rule_label if len(made_learners) == 1 else f"{learner_label} · {rule_label}", learner, rule)
        for learner_label, learner in made_learners
        for rule_label, rule in made_rules
    ]
    if len({label for label, _, _ in policies}) < len(policies):
        raise InvalidInput("two policies have the same description; leave one of them out")
    numbers = {key: data[key] for key in ("rounds", "runs", "seed", "checkpoints", "spacing") if key in data}
    for key, most in (("rounds", 10**15), ("runs", 10**6), ("seed", 2**128), ("checkpoints", 10**7)):
        if key in numbers:
            whole(numbers[key], key, least=0 if key == "seed" else 1, most=most)
    choice(numbers.get("spacing", "log"), "spacing", ("log", "linear"))
    return Experiment(str(data.get("title", title)), problem, budget, tuple(policies), **numbers)


def _problem_and_budget(data: dict[str, Any]) -> tuple[ContextualArms | Linear | Labels | Episodic, Budget]:
    entry = data["problem"]
    if isinstance(entry, dict):
        entry = dict(entry)
        if "contexts" in entry and not isinstance(entry["contexts"], list):
            entry["contexts"] = catalogue.build(catalogue.CONTEXTS, "contexts", entry["contexts"])
        if isinstance(entry.get("initial"), dict):
            entry["initial"] = catalogue.build(catalogue.CONTEXTS, "initial", entry["initial"])
        if isinstance(entry.get("arms"), dict):
            entry["arms"] = catalogue.build(catalogue.FEATURES, "arms", entry["arms"])
        if isinstance(entry.get("rewards"), dict):
            entry["rewards"] = catalogue.build(catalogue.REWARDS, "rewards", entry["rewards"])
    built = catalogue.build(catalogue.PROBLEMS, "problem", entry)
    if isinstance(built, Scenario):
        if "budget" in data:
            raise InvalidInput("this problem brings its own budget; leave `budget` out")
        return built.problem, built.budget
    if "budget" not in data:
        raise InvalidInput('an experiment needs a `budget`: a number, or for example { type = "Linear", rate = 0.1 }')
    budget = data["budget"]
    if isinstance(budget, int | float) and not isinstance(budget, bool):
        return built, as_budget(budget)
    return built, catalogue.build(catalogue.BUDGETS, "budget", budget)


def _listed(entries: Any, name: str) -> list[Any]:
    if not isinstance(entries, list) or not entries:
        raise InvalidInput(f"{name} must be a list with at least one entry, not {entries!r}")
    return entries


def _label(entry: Any) -> str:
    """A short name: the type, and the parameters if there are any."""
    if not isinstance(entry, dict):
        return str(entry)
    parameters = ", ".join(f"{name}={value}" for name, value in entry.items() if name != "type")
    return f"{entry.get('type')}({parameters})" if parameters else str(entry.get("type"))
