"""`simulate`: many runs of a learner and a rule on a problem under a budget, in parallel on all cores."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparingly.budgets import Budget, as_budget
from sparingly.episodic.simulator import EpisodicSimulator
from sparingly.errors import BudgetWarning, InvalidInput, MissingExtra
from sparingly.ledger import in_amounts
from sparingly.linear.labels.simulator import LabelSimulator
from sparingly.linear.simulator import LinearSimulator
from sparingly.numba_support import notice
from sparingly.problems.episodic import Episodic
from sparingly.problems.labels import Labels
from sparingly.problems.linear import Linear
from sparingly.protocol import Problem, QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import Rule
from sparingly.settings import AnyLearner
from sparingly.simulation.progress import Progress
from sparingly.simulation.simulator import Simulator
from sparingly.tabular.simulator import TabularSimulator
from sparingly.validation import choice, shown, whole

if TYPE_CHECKING:
    import pandas

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Simulation:
    """What `simulate` returns: the state of each run at K checkpoints."""

    rounds: Integers  #: (K,) the checkpoints
    regret: Floats  #: (runs, K) cumulative pseudo-regret
    asked: Integers  #: (runs, K) asks so far
    spent: Floats  #: (runs, K) budget spent so far
    budget: Floats  #: (runs, K) B(t)
    refused: Integers  #: (runs,) how often the ledger had to refuse
    plays: Integers  #: (runs, S, A) how often each cell was played; (runs, H, S, A) for episodes
    labels: dict[str, str] = field(default_factory=dict)  #: problem, learner, rule, schedule: what was run

    def frame(self) -> pandas.DataFrame:
        """All checkpoints of all runs as a pandas data frame, one row each."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("Simulation.frame()", "lab") from None
        runs, marks = self.regret.shape
        columns: dict[str, Any] = {
            "run": np.repeat(np.arange(runs), marks),
            "round": np.tile(self.rounds, runs),
            "regret": self.regret.ravel(),
            "asked": self.asked.ravel(),
            "spent": self.spent.ravel(),
            "budget": self.budget.ravel(),
        }
        return pandas.DataFrame(columns | self.labels)

    def final_regret(self) -> tuple[float, float]:
        """The mean regret at the end, and the half-width of its 95 % interval: Student's, over the runs."""
        return mean_and_half(self.regret[:, -1])

    def __repr__(self) -> str:
        mean, half = self.final_regret()
        runs, label = self.regret.shape[0], ", ".join(self.labels.values())
        return f"Simulation({label}: regret {mean:.1f} ± {half:.1f} after {self.rounds[-1]} rounds, {runs} runs)"


def mean_and_half(values: Floats) -> tuple[float, float]:
    """The mean over runs, and the half-width of its 95 % interval, which is NaN for a single run."""
    if values.size == 1:
        return float(values[0]), math.nan
    return float(values.mean()), student(values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)


def student(freedom: int) -> float:
    """Student's t that 2.5 % exceed; exact for 1 and 2 degrees of freedom, else by the expansion of Cornish and Fisher.

    >>> [round(student(n), 2) for n in (1, 2, 3, 9, 19, 10**9)]
    [12.71, 4.3, 3.18, 2.26, 2.09, 1.96]
    """
    if freedom == 1:
        return math.tan(0.475 * math.pi)
    if freedom == 2:
        return 0.95 / math.sqrt(2 * 0.975 * 0.025)
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def simulate(
    problem: Problem | Linear | Labels | Episodic,
    learner: AnyLearner,
    rule: Rule | QueryRule,
    budget: float | Budget,
    rounds: int = 100_000,
    runs: int = 20,
    seed: int | np.random.SeedSequence = 0,
    checkpoints: int | Sequence[int] | Integers = 200,
    spacing: Literal["log", "linear"] = "log",
    jobs: int | None = None,
    progress: bool | None = None,
    path: Literal["fast", "plain", "agent"] = "fast",
) -> Simulation:
    """Run a learner and a rule on a problem under a budget, `runs` times, and record regret and asks.

    Parameters:
    - `problem`: one of `problems`, or your own.
    - `learner`: chooses the actions.
    - `rule`: decides whether to ask.
    - `budget`: a number, or one of `budgets`, adversaries included.
    - `rounds`: the length of a run.
    - `runs`: the number of runs.
    - `seed`: with the same seed, all learners and rules meet the same contexts, budgets and noise.
    - `checkpoints`: how many rounds to record at most, or which ones.
    - `spacing`: how the recorded rounds are spaced.
    - `jobs`: how many threads to use. The results do not depend on it.
    - `progress`: whether to show a bar; None shows one in a terminal.
    - `path`: for tests of the simulator: "plain" plays every round, "agent" uses an Agent in Python. The results are
      the same.

    Returns: regret, asks, spending and budget of each run at the recorded rounds.

    >>> import sparingly as sp
    >>> r = sp.simulate(sp.problems.Arms([0.2, 0.8]), sp.UCB1(arms=2), sp.ExactMatching(), 100, rounds=1000, runs=3)
    >>> r.regret.shape == (3, len(r.rounds)), int(r.refused.sum()), bool((r.asked <= 100).all())
    (True, 0, True)
    """
    rounds, runs = whole(rounds, "rounds", most=10**15), whole(runs, "runs", most=10**6)
    workers = (os.cpu_count() or 1) if jobs is None else whole(jobs, "jobs", most=4096)
    choice(path, "path", ("fast", "plain", "agent"))
    marks = choose_checkpoints(rounds, checkpoints, spacing)
    simulator = make_simulator(problem, learner, rule, as_budget(budget), marks, skip=path == "fast")
    doubt = simulator.doubt(rounds)
    if doubt is not None:
        warnings.warn(doubt, BudgetWarning, stacklevel=2)
    by_agent = path == "agent" or not simulator.compiled
    if not by_agent and simulator.code not in _loaded:
        _loaded.add(simulator.code)
        with notice(f"the simulator of {simulator.about}"):  # the first use ever compiles, and says so
            simulator.load()
    bar = Progress(rounds * runs, "simulating", progress)
    seeds = seed_sequence(seed).spawn(runs)
    one_run = simulator.run_agent if by_agent else simulator.run_compiled
    try:
        records = _in_threads(lambda s: one_run(rounds, s, bar.add), seeds, workers)
    finally:
        bar.close()
    labels = {"problem": problem, "learner": learner, "rule": rule, "schedule": simulator.budget}
    return Simulation(
        rounds=marks,
        regret=np.array([r.regret for r, _ in records]),
        asked=np.array([r.asked for r, _ in records]),
        spent=in_amounts(np.array([r.spent for r, _ in records])),
        budget=in_amounts(np.array([r.budget for r, _ in records])),
        refused=np.array([refused for _, refused in records]),
        plays=np.array([r.plays.reshape(simulator.shape) for r, _ in records]),
        labels={name: repr(part) for name, part in labels.items()},
    )


_loaded: set[Any] = set()  # the loops whose compiled code this process has used
SIMULATORS: tuple[type[Simulator], ...] = (EpisodicSimulator, LinearSimulator, LabelSimulator, TabularSimulator)


def make_simulator(problem: Any, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> Simulator:
    """The simulator of the setting that the problem belongs to."""
    for kind in SIMULATORS:
        if isinstance(problem, kind.problems):
            return kind(problem, learner, rule, budget, marks, skip)
    instead = "it needs means, costs, contexts and draw"
    if hasattr(problem, "step"):
        instead = "an environment with steps has an Agent in a loop of your own, or sparingly.gym if it is Gymnasium's"
    elif isinstance(problem, list | tuple | np.ndarray):
        instead = f"write problems.Arms({shown(problem)})"
    raise InvalidInput(f"{shown(problem)} is not a problem: {instead}")


def _in_threads(call: Callable[[Any], Any], items: Sequence[Any], workers: int) -> list[Any]:
    """The results of `call` for all items, in order; compiled code releases the GIL, so threads use all cores."""
    if min(workers, len(items)) == 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        try:
            return list(pool.map(call, items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def choose_checkpoints(
    rounds: int, checkpoints: int | Sequence[int] | Integers, spacing: Literal["log", "linear"] = "log"
) -> Integers:
    """The rounds to record: `checkpoints` many (fewer where two would be the same), or exactly those given."""
    if isinstance(checkpoints, int | np.integer) and not isinstance(checkpoints, bool):
        count = min(whole(checkpoints, "checkpoints", most=10**7), rounds)
        choice(spacing, "spacing", ("log", "linear"))
        first = 1 if count > 1 else rounds
        spaced = np.geomspace(first, rounds, count) if spacing == "log" else np.linspace(rounds / count, rounds, count)
        return np.unique(np.rint(spaced).astype(np.int64))
    given = np.asarray(checkpoints)
    if given.ndim != 1 or given.size == 0 or not np.issubdtype(given.dtype, np.integer):
        raise InvalidInput("checkpoints must be a whole number or a list of whole numbers")
    marks: Integers = given.astype(np.int64)
    if marks[0] < 1 or marks[-1] > rounds or (np.diff(marks) <= 0).any():
        raise InvalidInput(f"checkpoints must increase and lie in 1 … {rounds}")
    return marks
