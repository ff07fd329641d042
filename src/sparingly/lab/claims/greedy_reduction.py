"""The greedy reduction: what it achieves without an adversary, and how an adversary defeats it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from sparingly.agent import Agent
from sparingly.budgets import Budget, Fixed, Periodic, Sequence
from sparingly.features import Sphere
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.panels import Floats, along, bound_line, curve, name, regrets, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import MOSS, OFUL, UCB1, UCBVI, Always, ExactMatching
from sparingly.problems import (
    Arms,
    Linear,
    greedy_trap,
    linear_trap,
    random_mdp,
    worse_labelling,
)  # fmt: skip
from sparingly.rules import Greedy, PaperMatching
from sparingly.theory import FrontLoaded, play, upper

JUDGED_REDUCTION = (
    "The mean regret under three oblivious budgets must stay below the bound at every checkpoint: with the published "
    "constants of the base algorithm, and, far sharper, with the smallest α for which α sqrt(t) lies above what the "
    "base algorithm itself was measured to lose when it asks in every round."
)
VACUOUS = (
    "With the published constants the bound exceeds all that can be lost in so many rounds: no policy could break it. "
    "The bound with the measured α, the thin line, is the one that says something."
)


def _oblivious(rounds: int) -> dict[str, Budget]:
    """Oblivious budgets in whole units, none of which starts at 0."""
    t = np.arange(1, rounds + 1)
    return {
        "a tenth of the rounds": Periodic(1, every=10),
        "sqrt(t)": Sequence(np.floor(np.sqrt(t))),
        "100 every 1,000": Periodic(100, every=1_000),
    }


def _reduction(
    runner: Runner, problem: Any, learner: Any, base: upper.Base | None, rounds: int, runs: int, x_label: str = "round",
    unit: int = 1, policies: int = 1,
) -> tuple[list[Check], list[Panel]]:  # fmt: skip
    """Check Theorem 1 with published constants, if there is a `base`, and with measured ones; an ask costs `unit`.

    The number of past `policies` that are kept does not change the expected regret; with more, runs differ less.
    """
    free = runner.simulate(problem, learner, Always(), Fixed(np.inf), rounds=rounds, runs=runs, stream=9)
    _, _, high = statistics.interval(free.regret, 2 * free.rounds.size)  # the other half of the alarm is for the check
    alpha = float((high / np.sqrt(free.rounds)).max())

    def bound(budget: Floats, *constants: float) -> Floats:
        return upper.greedy_reduction(np.maximum(np.floor(budget / unit), 1.0), *constants)

    checks, panels = [], []
    for place, (label, schedule) in enumerate(_oblivious(rounds).items()):
        budget = schedule if unit == 1 else _times(schedule, unit, rounds)
        result = runner.simulate(problem, learner, Greedy(policies), budget, rounds=rounds, runs=runs, stream=place)
        bars = along(result, lambda b: bound(b, alpha, 0.5))
        lines = [bound_line("Theorem 1, measured α", result, bars, role="fit")]
        checks += [
            statistics.below_curve(f"budget {label}: regret ≤ Theorem 1, measured α", result.regret, bars, estimates=2),
            statistics.exact(f"budget {label}: refusals", result.refused.sum(), "=", 0),
        ]
        if base is not None:
            bars = along(result, lambda b: bound(b, *base))
            lines.insert(0, bound_line("Theorem 1, published", result, bars))
            says = f"budget {label}: regret ≤ Theorem 1, published constants"
            checks.append(statistics.below_curve(says, result.regret, bars))
        panels.append(regrets(f"Budget {label}", {"Greedy": result}, *lines, x_label=x_label))
    return checks, panels


def _times(schedule: Budget, unit: int, rounds: int) -> Budget:
    """A schedule multiplied by `unit`: all H rewards of an episode are asked for, or none."""
    values: Any = schedule
    return Sequence([unit * values(t) for t in range(1, rounds + 1)])


@claim(
    "greedy/moss",
    "Greedy with MOSS-anytime loses at most α sqrt(T) + Σ α/sqrt(B(t)), α = 113 sqrt(A), under any oblivious budget.",
    source="Theorem 1, with MOSS-anytime",
    judged=JUDGED_REDUCTION,
    quick={"arms": 10, "gap": 0.2, "rounds": 100_000, "runs": 200},
    full={"rounds": 1_000_000, "runs": 800},
)
def moss(runner: Runner, arms: int, gap: float, rounds: int, runs: int) -> Evidence:
    problem = Arms([0.5] * (arms - 1) + [0.5 + gap])
    checks, panels = _reduction(runner, problem, MOSS(arms), upper.base_moss(arms), rounds, runs, policies=32)
    return Evidence(tuple(checks), tuple(panels), VACUOUS)


@claim(
    "greedy/oful",
    "Greedy with OFUL loses at most α (sqrt(T) + Σ 1/sqrt(B(t))) + C (1 + Σ 1/B(t)) on random contexts, "
    "α = 2 l_T v_T, C = 2δT.",
    source="Theorem 1, with OFUL",
    judged=JUDGED_REDUCTION,
    quick={"dim": 4, "arms": 5, "noise": 0.5, "rounds": 5_000, "runs": 400},
    full={"rounds": 50_000},
)
def oful(runner: Runner, dim: int, arms: int, noise: float, rounds: int, runs: int) -> Evidence:
    problem = Linear(np.full(dim, dim**-0.5), Sphere(arms), noise=noise)
    learner = OFUL(dim, noise=noise, radius="simple")
    base = upper.base_oful(rounds, dim, noise=noise, delta=learner.delta)
    checks, panels = _reduction(runner, problem, learner, base, rounds, runs)
    return Evidence(tuple(checks), tuple(panels), VACUOUS)


@claim(
    "greedy/ucbvi",
    "Greedy with UCBVI, which asks for all rewards of an episode or for none, obeys Theorem 1 in episodes.",
    source="Theorem 1, with UCBVI",
    judged=JUDGED_REDUCTION + " Theorem 1 holds for any base algorithm: the sharper check is made with bonuses scaled "
    "down, with which UCBVI learns in so few episodes; the published constants are for scale 1.",
    quick={
        "sizes": (3, 2, 3), "scale": 0.02, "rounds": 20_000, "runs": 40, "policies": 32, "unscaled_rounds": 10_000,
        "unscaled_runs": 10,
    },
    full={"rounds": 100_000, "runs": 100, "unscaled_rounds": 100_000},
)  # fmt: skip
def ucbvi(
    runner: Runner, sizes: tuple[int, int, int], scale: float, rounds: int, runs: int, policies: int,
    unscaled_rounds: int, unscaled_runs: int,
) -> Evidence:  # fmt: skip
    problem, horizon = random_mdp(*sizes, seed=runner.seed), sizes[2]
    checks, panels = _reduction(
        runner, problem, UCBVI(*sizes, scale=scale), None, rounds, runs, "episode", unit=horizon, policies=policies
    )
    learner, schedule = UCBVI(*sizes), _times(Periodic(1, every=10), horizon, unscaled_rounds)
    base = upper.base_ucbvi(unscaled_rounds, *sizes, delta=learner.delta)
    plain = runner.simulate(
        problem, learner, Greedy(policies), schedule, rounds=unscaled_rounds, runs=unscaled_runs, stream=8
    )
    bars = along(plain, lambda b: upper.greedy_reduction(np.maximum(np.floor(b / horizon), 1.0), *base))
    says = "scale 1, a tenth of the episodes: regret ≤ Theorem 1, published constants"
    checks.append(statistics.below_for_any_law(says, plain.regret, bars, horizon * plain.rounds))
    line = bound_line("Theorem 1, published", plain, bars)
    panels.append(regrets("Scale 1: a tenth of the episodes", {"Greedy": plain}, line, x_label="episode"))
    return Evidence(tuple(checks), tuple(panels), VACUOUS)


@claim(
    "greedy/front-loading",
    "Without contexts, any policy can be turned into one that makes all its asks first, at the same expected regret.",
    source="Proposition 5 (greedy equivalent)",
    judged="Exact, in every run: the transformed policy asks in each of the first B rounds and never after, and "
    "plays every arm "
    "just as often as the original when both get the same k-th answer of an arm.",
    quick={"arms": 4, "budget": 100, "rounds": 2_000, "runs": 10},
    full={"budget": 400, "rounds": 20_000, "runs": 20},
)
def front_loading(runner: Runner, arms: int, budget: int, rounds: int, runs: int) -> Evidence:
    problem, checks, lines = Arms(np.linspace(0.3, 0.7, arms)), [], []
    for learner, rule in ((UCB1(arms), ExactMatching()), (UCB1(arms), PaperMatching()), (MOSS(arms), ExactMatching())):
        learner_used, rule_used = runner.change(learner, rule)
        apart = late = 0
        for run in range(runs):
            first, second = (Agent(learner_used, rule=rule_used, budget=budget, seed=run) for _ in range(2))
            original = play(first, problem, rounds, seed=1_000 * runner.seed + run)
            moved = play(FrontLoaded(second, rounds), problem, rounds, seed=1_000 * runner.seed + run)
            apart += int(np.abs(original.plays - moved.plays).sum())
            late += int((moved.asks != (np.arange(rounds) < budget)).sum())
        label = f"{name(learner)} · {name(rule)}"
        checks += [
            statistics.exact(f"{label}: plays that differ from the original", apart, "=", 0),
            statistics.exact(f"{label}: rounds asked too late, or not asked", late, "=", 0),
        ]
        lines.append(curve(f"{label}, original", np.arange(1, rounds + 1), np.cumsum(original.asks)))
    lines.append(curve("front-loaded", np.arange(1, rounds + 1), np.cumsum(moved.asks), role="budget"))
    thin = tuple(curve(c.label, c.x[:: rounds // 100], c.y[:: rounds // 100], c.role) for c in lines)
    return Evidence(tuple(checks), (Panel("Asks of one run", "round", "asks so far", thin, x_log=False, y_log=False),))


Trap = Callable[[int], tuple[Any, Budget]]


def _trap(
    runner: Runner, learner: Any, trap: Trap, bounds: dict[str, tuple[str, Callable[[Floats], Floats]]], rounds: int,
    runs: int, greedy_runs: int,
) -> Evidence:  # fmt: skip
    """Greedy loses at least T/4 on one labelling; the matching rules stay below T/4 and below their bounds on both."""
    checks, shown = [], {}
    greedy = [
        runner.simulate(*_split(trap(good), learner, Greedy()), rounds=rounds, runs=greedy_runs, stream=good)
        for good in (0, 1)
    ]
    finals = [result.regret[:, -1] for result in greedy]
    checks.append(statistics.above_somewhere("Greedy: regret on the worse labelling ≥ T/4", finals, rounds / 4))
    worse = int(np.argmax([final.mean() for final in finals]))
    shown["Greedy"] = greedy[worse]
    for rule in (PaperMatching(), ExactMatching()):
        title, bound = bounds[name(rule)]
        for good in (0, 1):
            result = runner.simulate(*_split(trap(good), learner, rule), rounds=rounds, runs=runs, stream=good)
            label, most = f"{name(rule)}, arm {good} good", result.rounds.astype(np.float64)
            final, bars = result.regret[:, -1:], along(result, bound)
            checks += [
                statistics.below_for_any_law(f"{label}: regret ≤ T/4", final, [rounds / 4], most[-1:]),
                statistics.below_for_any_law(f"{label}: regret ≤ {title}", result.regret, bars, most),
                statistics.exact(f"{label}: refusals", result.refused.sum(), "=", 0),
            ]
            if good == worse:
                shown[name(rule)] = result
    first = shown["Greedy"]
    lines = (
        curve("T/4", first.rounds, first.rounds / 4, role="lower"),
        *(bound_line(f"{title}, {rule}", shown[rule], along(shown[rule], f)) for rule, (title, f) in bounds.items()),
    )
    return Evidence(
        tuple(checks),
        (regrets("The labelling that is worse for Greedy", shown, *lines), spending(shown)),
    )


def _split(trap: tuple[Any, Budget], learner: Any, rule: Any) -> tuple[Any, Any, Any, Budget]:
    return trap[0], learner, rule, trap[1]


JUDGED_TRAP = (
    "Greedy's mean regret on the worse of two labellings must lie above T/4, and that of the matching rules on both "
    "labellings below T/4 at the end, and below the bound for its rule at every checkpoint, whatever the law of regret."
)
TABULAR: dict[str, tuple[str, Callable[[Floats], Floats]]] = {
    "PaperMatching": ("Theorem 2", lambda b: upper.cbm_ucb(b, 2, contexts=2)),
    "ExactMatching": ("our bound", lambda b: upper.exact_arms(b, 2, contexts=2)),
}


@claim(
    "greedy/adversarial-contexts",
    "If an adversary picks the contexts, greedy loses T/4 on a bandit with two contexts and two arms; matching does "
    "not.",
    source="Proposition 6 (i)",
    judged=JUDGED_TRAP,
    quick={"rounds": 100_000, "runs": 100},
    full={"rounds": 400_000, "runs": 200},
)
def adversarial_contexts(runner: Runner, rounds: int, runs: int) -> Evidence:
    learner = UCB1(2, contexts=2)
    return _trap(runner, learner, lambda good: greedy_trap("contexts", good), TABULAR, rounds, runs, runs)


@claim(
    "greedy/adversarial-budget",
    "If an adversary controls the budget, greedy loses T/4 on a bandit with two contexts and two arms; matching does "
    "not.",
    source="Proposition 6 (ii)",
    judged=JUDGED_TRAP,
    quick={"rounds": 100_000, "runs": 100},
    full={"rounds": 400_000, "runs": 200},
)
def adversarial_budget(runner: Runner, rounds: int, runs: int) -> Evidence:
    learner = UCB1(2, contexts=2)
    return _trap(runner, learner, lambda good: greedy_trap("budget", good), TABULAR, rounds, runs, runs)


@claim(
    "greedy/any-base",
    "The counterexample does not depend on the base algorithm: MOSS-anytime falls for both adversaries too.",
    source="Proposition 6",
    judged="The mean regret of greedy with MOSS must lie above T/4 on the labelling that is worse for it.",
    quick={"rounds": 100_000, "runs": 20},
    full={"rounds": 1_000_000, "runs": 50},
)
def any_base(runner: Runner, rounds: int, runs: int) -> Evidence:
    checks, shown = [], {}
    adversaries: tuple[Literal["contexts", "budget"], ...] = ("contexts", "budget")
    for adversary in adversaries:
        learner = MOSS(2, contexts=2)
        trap = greedy_trap(adversary, worse_labelling(learner))
        result = runner.simulate(trap.problem, learner, Greedy(), trap.budget, rounds=rounds, runs=runs)
        checks.append(statistics.mean(f"adversarial {adversary}: regret / T", result.regret[:, -1] / rounds, "≥", 0.25))
        shown[f"adversarial {adversary}"] = result
    marks = result.rounds
    line = curve("T/4", marks, marks / 4, role="lower")
    note = (
        "With ties broken at random greedy loses exactly T/4 on average: there the bound is met, and no test can "
        "pass it."
    )
    return Evidence(tuple(checks), (regrets("Greedy with MOSS-anytime", shown, line), spending(shown)), note)


@claim(
    "greedy/adversarial-linear",
    "The counterexample as a linear bandit in d = 4: greedy loses T/4, CBM-OFUL stays below Theorem 3.",
    source="after Theorem 3",
    judged=JUDGED_TRAP,
    quick={"rounds": 50_000, "runs": 100, "greedy_runs": 20},
    full={"rounds": 300_000, "runs": 200},
)
def adversarial_linear(runner: Runner, rounds: int, runs: int, greedy_runs: int) -> Evidence:
    learner = OFUL(4, noise=0.0, norm=1.25, radius="simple")
    known = {"noise": 0.0, "norm": 1.25, "delta": learner.delta}
    bounds: dict[str, tuple[str, Callable[[Floats], Floats]]] = {
        "PaperMatching": ("Theorem 3", lambda b: upper.cbm_oful(b, 4, **known)),
        "ExactMatching": ("our bound", lambda b: upper.exact_oful(b, 4, **known)),
    }
    return _trap(runner, learner, linear_trap, bounds, rounds, runs, greedy_runs)
