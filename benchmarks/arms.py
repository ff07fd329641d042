"""How fast arms are simulated and decided: `python -m benchmarks.arms` (or `make bench`, after `make peers`).

One run, candidates in turns: the engine against a C program of the same algorithm, against the UCB of river and of
SMPyBandits; the Agent against river's bandit.UCB; a billion budgeted rounds; start-up and first compilation.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import sparingly as sp
from benchmarks import c_program
from benchmarks.timing import race, report
from sparingly.randomness import keys

MEANS = [0.6] + [0.5] * 9
SPREAD = [0.05 + 0.1 * i for i in range(10)]
ROUNDS = 100_000
PEER_ROUNDS = 2_000


def simulate(means: list[float], rounds: int = ROUNDS, runs: int = 1, **options: object) -> sp.Simulation:
    """UCB1 asking always, through the public call, on one core."""
    problem, learner = sp.problems.Arms(means), sp.UCB1(arms=len(means))
    return sp.simulate(
        problem, learner, sp.Always(), np.inf, rounds=rounds, runs=runs, checkpoints=1, jobs=1, **options
    )


def noise_of_run_zero(cells: int) -> np.ndarray:
    """The keys that simulate() gives the cells of its first run with seed 0."""
    return keys(np.random.SeedSequence(0).spawn(1)[0].spawn(3)[1], cells)


def agent_rounds(rounds: int = PEER_ROUNDS) -> None:
    """The Agent in a plain Python loop, asking always."""
    agent, draw = sp.Agent(sp.UCB1(arms=len(MEANS)), rule=sp.Always(), budget=np.inf, seed=0), random.Random(0).random
    for _ in range(rounds):
        d = agent.decide()
        if d.ask:
            agent.observe(d.id, 1.0 if draw() < MEANS[d.action] else 0.0)


def river_rounds(rounds: int = PEER_ROUNDS) -> None:
    """river's bandit.UCB: pull and update."""
    from river import bandit

    policy, arms, draw = bandit.UCB(delta=1.0, seed=0), list(range(len(MEANS))), random.Random(0).random
    for _ in range(rounds):
        arm = policy.pull(arms)
        policy.update(arm, 1.0 if draw() < MEANS[arm] else 0.0)


def smpybandits_rounds(rounds: int = PEER_ROUNDS) -> None:
    """SMPyBandits' UCB: choice and getReward."""
    policy, draw = smpybandits_ucb()(len(MEANS)), random.Random(0).random
    policy.startGame()
    with np.errstate(all="ignore"):  # it divides by zero before each arm has been played
        for _ in range(rounds):
            arm = policy.choice()
            policy.getReward(arm, 1.0 if draw() < MEANS[arm] else 0.0)


def smpybandits_ucb() -> type:
    """The class, without the package's own imports: some need functions that SciPy has dropped."""
    import importlib
    import importlib.util
    import types
    from pathlib import Path

    spec = importlib.util.find_spec("SMPyBandits")
    if spec is None or spec.origin is None:
        raise ImportError("SMPyBandits")
    if "smp" not in sys.modules:
        package = types.ModuleType("smp")
        package.__path__ = [str(Path(spec.origin).parent / "Policies")]
        sys.modules["smp"] = package
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("smp.UCB").UCB


def peers() -> dict[str, object]:
    """The other packages that are installed here."""
    found = {}
    for name, call, probe in (
        ("river bandit.UCB", river_rounds, lambda: __import__("river")),
        ("SMPyBandits UCB", smpybandits_rounds, smpybandits_ucb),
    ):
        try:
            probe()
        except ImportError:
            print(f"  ({name} is not installed: make peers)")
        else:
            found[name] = (call, PEER_ROUNDS)
    return found


def race_engine() -> None:
    """Asking always, A = 10, T = 100,000: the same plays as the C program, and how long they take."""
    for title, means in (("one arm at 0.6, nine at 0.5", MEANS), ("means 0.05, 0.15, …, 0.95", SPREAD)):
        c = c_program.ucb1(ROUNDS, means, noise_of_run_zero(len(means)))
        assert np.array_equal(simulate(means).plays[0, 0], c()), "the engine and the C program disagree"
        timings = race(
            {
                "sparingly, sp.simulate": (lambda means=means: simulate(means), ROUNDS),
                "sparingly, 20 runs": (lambda means=means: simulate(means, runs=20), 20 * ROUNDS),
                "sparingly, plain loop": (lambda means=means: simulate(means, path="plain"), ROUNDS),
                "C, gcc -O3": (c, ROUNDS),
            }
        )
        report(f"Simulation, asking always, {title} (identical plays)", timings, "sparingly, sp.simulate")


def race_peers() -> None:
    """Per round, against packages that users would pick."""
    others = peers()
    timings = race({"sparingly, sp.simulate": (lambda: simulate(MEANS), ROUNDS), **others}, turns=5)
    report("Simulation against other packages", timings, "sparingly, sp.simulate")
    timings = race({"sparingly, Agent (decide and observe)": (agent_rounds, PEER_ROUNDS), **others}, turns=7)
    report("One decision at a time, from a plain Python loop", timings, "sparingly, Agent (decide and observe)")


def billion_rounds() -> None:
    """10⁹ budgeted rounds; the plain loop is compared over the first 10⁷ of them."""
    problem, learner = sp.problems.Arms(MEANS), sp.UCB1(arms=10)
    print("\nA billion budgeted rounds of ten arms (one run, one core; equal to the plain loop at 10⁷)")
    for rule in (sp.ExactMatching(), sp.PaperMatching(), sp.Greedy()):
        for budget in (sp.budgets.Fixed(10_000), sp.budgets.Polynomial(0.6), sp.budgets.Linear(0.001)):
            start = time.perf_counter()
            r = sp.simulate(problem, learner, rule, budget, rounds=10**9, runs=1, jobs=1, checkpoints=[10**7, 10**9])
            seconds = time.perf_counter() - start
            plain = sp.simulate(
                problem, learner, rule, budget, rounds=10**7, runs=1, jobs=1, checkpoints=[10**7], path="plain"
            )
            agrees = r.regret[0, 0] == plain.regret[0, 0] and r.asked[0, 0] == plain.asked[0, 0]
            assert agrees, "the sprint and the plain loop disagree"
            print(f"  {rule!r:20s} {budget!r:35s} {seconds:7.3f} s, {r.asked[0, -1]:>9,} asks")


SIMULATE = "import sparingly as sp; sp.simulate(sp.problems.Arms([.5, .6]), sp.UCB1(2), sp.ExactMatching(), 50)"
ALL_CODE = SIMULATE + "; a = sp.Agent(sp.UCB1(2), budget=9); a.observe(a.decide().id, 1.0)"


def process_seconds(code: str, **environment: str) -> float:
    """The time that a fresh Python process takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | environment, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def start_up() -> None:
    """First use compiles; a second process must not."""
    with tempfile.TemporaryDirectory() as cache:
        imports = "import numpy, numba"
        first = process_seconds(ALL_CODE, NUMBA_CACHE_DIR=cache)
        base, second = [], []
        for _ in range(5):
            base.append(process_seconds(imports, NUMBA_CACHE_DIR=cache))
            second.append(process_seconds(SIMULATE, NUMBA_CACHE_DIR=cache))
    print("\nStart-up (whole processes)")
    print(f"  import numpy, numba                        {min(base):6.2f} s (median {statistics.median(base):.2f})")
    print(f"  first use ever, everything compiled        {first:6.2f} s: {first - min(base):.1f} s more")
    print(f"  second process, first simulation done      {min(second):6.2f} s: {min(second) - min(base):.2f} s more")


def main() -> None:
    """All of it."""
    print(f"numpy {np.__version__}, {os.cpu_count()} cores; best of several turns, with the spread")
    start_up()
    race_engine()
    race_peers()
    billion_rounds()


if __name__ == "__main__":
    main()
