"""This working tree against another version, race by race: `python -m benchmarks.versions 375171c`.

Both run in processes of their own and take turns, so that a noisy machine is noisy for both. What is measured goes
through the public calls only. A ratio above 1 means that this working tree is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TURNS = 12


def races() -> dict[str, Any]:
    """What is timed, by name: a call, and the units of work that it does."""
    import numpy as np

    import sparingly as sp

    def simulated(problem: Any, learner: Any, rule: Any, budget: Any, rounds: int, **options: Any) -> Any:
        made = {"rounds": rounds, "runs": 1, "checkpoints": 1, "jobs": 1} | options
        return lambda: sp.simulate(problem, learner, rule, budget, **made), rounds

    def agent(learner: Any, rule: Any, context: Any, rounds: int = 2_000) -> Any:
        def run() -> None:
            made = sp.Agent(learner, rule, budget=np.inf, seed=0)
            for _ in range(rounds):
                d = made.decide(context)
                if d.ask:
                    made.observe(d.id, 0.5)

        return run, rounds

    one, many = sp.problems.Arms([0.6] + [0.5] * 9), sp.problems.Arms([0.05 + 0.1 * i for i in range(10)])
    random = np.random.default_rng(0)
    contexts = sp.problems.ContextualArms(random.random((20, 5)))
    rows = {d: random.normal(size=(20, d)) / np.sqrt(d) / 3 for d in (16, 64)}
    linear = {d: np.full(d, 1 / np.sqrt(d)) for d in rows}
    dense = sp.problems.random_mdp(50, 4, 20, seed=0)
    sparse = sp.problems.random_mdp(50, 4, 20, successors=4, seed=0)
    ucbvi = {"learner": sp.UCBVI(50, 4, 20, scale=0.05)}
    found = {
        "arms, always": simulated(one, sp.UCB1(10), sp.Always(), np.inf, 100_000),
        "arms, always, spread": simulated(many, sp.UCB1(10), sp.Always(), np.inf, 100_000),
        "arms, always, plain loop": simulated(one, sp.UCB1(10), sp.Always(), np.inf, 100_000, path="plain"),
        "arms, exact, fixed budget": simulated(one, sp.UCB1(10), sp.ExactMatching(), 10_000, 10_000_000),
        "arms, exact, growing": simulated(one, sp.UCB1(10), sp.ExactMatching(), sp.budgets.Linear(0.1), 300_000),
        "arms, paper, growing": simulated(one, sp.UCB1(10), sp.PaperMatching(), sp.budgets.Linear(0.1), 300_000),
        "arms, matching, fixed": simulated(one, sp.UCB1(10), sp.Matching(1.0), 10_000, 1_000_000),
        "arms, greedy, growing": simulated(one, sp.UCB1(10), sp.Greedy(), sp.budgets.Linear(0.1), 300_000),
        "arms, MOSS, exact": simulated(one, sp.MOSS(10), sp.ExactMatching(), 10_000, 1_000_000),
        "contexts, exact": simulated(contexts, sp.UCB1(5, 20), sp.ExactMatching(), sp.budgets.Linear(0.3), 200_000),
        "contexts, greedy": simulated(contexts, sp.UCB1(5, 20), sp.Greedy(), sp.budgets.Linear(0.3), 50_000),
        "OFUL, d = 16, changing": simulated(
            sp.problems.Linear(linear[16], sp.features.Sphere(20)), sp.OFUL(16), sp.Always(), np.inf, 4_000
        ),
        "OFUL, d = 64, changing": simulated(
            sp.problems.Linear(linear[64], sp.features.Sphere(20)), sp.OFUL(64), sp.Always(), np.inf, 1_000
        ),
        "OFUL, d = 16, fixed set, always": simulated(
            sp.problems.Linear(linear[16], rows[16]), sp.OFUL(16), sp.Always(), np.inf, 20_000
        ),
        "OFUL, d = 64, fixed set, exact": simulated(
            sp.problems.Linear(linear[64], rows[64]), sp.OFUL(64), sp.ExactMatching(), 2_000, 50_000
        ),
        "UCBVI, dense": simulated(dense, rule=sp.Always(), budget=np.inf, rounds=500, **ucbvi),
        "UCBVI, sparse": simulated(sparse, rule=sp.Always(), budget=np.inf, rounds=2_000, **ucbvi),
        "UCBVI, sparse, exact": simulated(sparse, rule=sp.ExactMatching(), budget=50_000, rounds=2_000, **ucbvi),
        "ULCVI, dense": simulated(dense, sp.ULCVI(50, 4, 20, scale=0.01), sp.Always(), np.inf, 100),
        "Agent, UCB1": agent(sp.UCB1(10), sp.Always(), None),
        "Agent, UCB1, exact": agent(sp.UCB1(10), sp.ExactMatching(), None),
        "Agent, OFUL": agent(sp.OFUL(16), sp.ExactMatching(), rows[16]),
    }
    for call, _ in found.values():
        call()  # compiles
    return found


def serve_turns() -> None:
    """In a process of one version: for each name that comes in, run that race once and say how long it took."""
    start = time.perf_counter()
    found = races()
    print(json.dumps(time.perf_counter() - start), flush=True)
    for line in sys.stdin:
        call, work = found[line.strip()]
        start = time.perf_counter()
        call()
        print(json.dumps((time.perf_counter() - start) / work), flush=True)


def started(source: Path, cache: Path) -> subprocess.Popen[str]:
    """A process that imports the package from `source`."""
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "NUMBA_CACHE_DIR": str(cache)}
    code = "from benchmarks.versions import serve_turns; serve_turns()"
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def answer(process: subprocess.Popen[str], name: str | None) -> float:
    """What a process says to a name, or at its start."""
    assert process.stdin is not None and process.stdout is not None
    if name is not None:
        process.stdin.write(f"{name}\n")
        process.stdin.flush()
    return float(json.loads(process.stdout.readline()))


def compare(old_source: Path, turns: int, folder: Path) -> bool:
    """Print every race; whether this tree is nowhere slower than 1.05 ×."""
    processes = {}
    for which, source in (("old", old_source), ("new", ROOT / "src")):
        cache = folder / f"cache-{which}"
        cache.mkdir()
        processes[which] = started(source, cache)
        print(f"{which}: everything compiled and run once in {answer(processes[which], None):.1f} s", flush=True)
    names = list(races())
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn in range(turns):
        print(f"\rturn {turn + 1} of {turns}", end="", file=sys.stderr, flush=True)
        for name in names:
            for which in ("old", "new") if turn % 2 else ("new", "old"):
                seconds.setdefault((which, name), []).append(answer(processes[which], name))
    print(f"\r{'':40}\r{'race':36} {'old':>12} {'new':>12}   ratio of the best (of the medians)")
    fine = True
    for name in names:
        old, new = seconds["old", name], seconds["new", name]
        ratio, middle = min(new) / min(old), statistics.median(new) / statistics.median(old)
        fine = fine and min(ratio, middle) <= 1.05
        print(f"{name:36} {min(old) * 1e9:9.1f} ns {min(new) * 1e9:9.1f} ns   {ratio:.2f} ({middle:.2f})")
    for process in processes.values():
        process.communicate()
    return fine


def main() -> int:
    """Check the other version out, and race."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="a commit, tag or branch of this repository")
    parser.add_argument("--turns", type=int, default=TURNS, help="how often each race is run (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = subprocess.run(["git", "archive", options.revision, "src"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        return 0 if compare(folder / "src", options.turns, folder) else 1


if __name__ == "__main__":
    sys.exit(main())
