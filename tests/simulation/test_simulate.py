"""The simulator: every path gives the same trajectories, results depend on the seed alone, bad input is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sparingly as sp
from sparingly.simulation.simulate import student
from tests.conftest import BUDGETS, LEARNERS, RULES, interpreted, same

PROBLEMS = {
    "bernoulli": sp.problems.Arms([0.3, 0.5, 0.6]),
    "beta with costs": sp.problems.Arms([0.3, 0.5, 0.6], costs=[0.1, 0.7, 2], rewards="beta"),
    "contexts": sp.problems.ContextualArms([[0.3, 0.5], [0.9, 0.1], [0.5, 0.5]], rewards="normal"),
    "trap": sp.problems.greedy_trap("contexts").problem,
}


@pytest.mark.parametrize("ties", ["first", "random"])
@pytest.mark.parametrize("rule", RULES["tabular"], ids=repr)
@pytest.mark.parametrize("learner", LEARNERS)
def test_fast_plain_and_agent_are_one(learner, rule, ties):
    """Recorded in every round, and recorded at the end only (so that the sprint can skip)."""
    for number, budget in enumerate(BUDGETS):
        for problem in PROBLEMS.values():
            contexts, arms = problem.shape
            made = LEARNERS[learner](arms, contexts, ties=ties)
            for checkpoints in (range(1, 401), [400]):
                runs = [
                    sp.simulate(
                        problem, made, rule, budget, rounds=400, runs=1, seed=number, checkpoints=checkpoints, path=path
                    )
                    for path in ("fast", "plain", "agent")
                ]
                same(runs[0], runs[1])
                same(runs[0], runs[2])


@settings(max_examples=60)
@given(
    means=st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.50001, 0.9, 1.0]), min_size=1, max_size=6),
    rewards=st.sampled_from(["bernoulli", "fixed", "beta"]),
    learner=st.sampled_from(list(LEARNERS)),
    ties=st.sampled_from(["first", "random"]),
    scale=st.sampled_from([0.0, 0.05, 1.0]),
    rule=st.sampled_from(RULES["tabular"]),
    budget=st.sampled_from([*BUDGETS, sp.budgets.Fixed(7), sp.budgets.Periodic(3, 997), sp.budgets.Late(50, 1500)]),
    seed=st.integers(0, 2**32),
)
def test_the_sprint_equals_the_plain_loop(means, rewards, learner, ties, scale, rule, budget, seed):
    """Exact ties, equal and nearly equal arms, no bonus at all: 5,000 rounds each."""
    made = LEARNERS[learner](len(means), 1, ties=ties, scale=scale)
    problem = sp.problems.Arms(means, rewards=rewards)
    options = {"rounds": 5_000, "runs": 1, "seed": seed, "checkpoints": [1, 10, 4_000, 5_000]}
    fast = sp.simulate(problem, made, rule, budget, **options)
    same(fast, sp.simulate(problem, made, rule, budget, path="plain", **options))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("rule", RULES["tabular"], ids=repr)
def test_late_budgets_equal_the_plain_loop(learner, rule):
    """Nothing is asked for a while, then the first asks come: 60 seeds, since one may be lucky."""
    for budget in (sp.budgets.Late(1000, 40), sp.budgets.Bernoulli(0.02, 15), sp.budgets.Sequence([0] * 90 + [np.inf])):
        options = {"rounds": 300, "runs": 60, "checkpoints": 1, "seed": 8}
        made = LEARNERS[learner](2, 1)
        fast = sp.simulate(sp.problems.Arms([0.2, 0.8]), made, rule, budget, **options)
        same(fast, sp.simulate(sp.problems.Arms([0.2, 0.8]), made, rule, budget, path="plain", **options))


SLOW = ("KLUCB", "BettingUCB", "Thompson")  # a round that is played takes them far longer


@pytest.mark.parametrize("learner", LEARNERS)
def test_millions_of_budgeted_rounds_equal_the_plain_loop(learner):
    problem = sp.problems.Arms([0.6] + [0.5] * 9)
    for rule, budget in ((sp.ExactMatching(), 10_000), (sp.PaperMatching(), sp.budgets.Polynomial(0.6))):
        made = LEARNERS[learner](10, 1)
        rounds = 500_000 if learner in SLOW else 10_000_000
        options = {"rounds": rounds, "runs": 1, "checkpoints": 30, "seed": 5}
        fast = sp.simulate(problem, made, rule, budget, **options)
        same(fast, sp.simulate(problem, made, rule, budget, path="plain", **options))


def digest() -> dict[str, list[float]]:
    """A trajectory of every learner × rule, recorded in every round."""
    result = {}
    for learner in LEARNERS:
        for rule in RULES["tabular"]:
            for name, problem in PROBLEMS.items():
                contexts, arms = problem.shape
                made = LEARNERS[learner](arms, contexts, ties="random")
                budget = sp.budgets.Bernoulli(0.4)
                r = sp.simulate(problem, made, rule, budget, rounds=60, runs=1, seed=1, checkpoints=range(1, 61))
                result[f"{learner} {rule} {name}"] = [*r.regret[0], *r.asked[0].tolist(), *r.plays.ravel().tolist()]
    return result


def test_compiled_and_interpreted_runs_are_identical():
    plain, compiled = interpreted("tests.simulation.test_simulate"), digest()
    assert plain.keys() == compiled.keys()
    for name in compiled:
        assert plain[name] == compiled[name], name


def small(**changes):
    options = {"rounds": 2_000, "runs": 4, "seed": 0} | changes
    return sp.simulate(PROBLEMS["bernoulli"], sp.UCB1(3), sp.ExactMatching(), sp.budgets.Bernoulli(0.2), **options)


def test_results_depend_on_the_seed_alone():
    same(small(jobs=1), small(jobs=4))
    same(small(), small())
    assert not np.array_equal(small().regret, small(seed=1).regret)
    np.testing.assert_array_equal(small(runs=4).regret[:2], small(runs=2).regret)
    assert len(np.unique(small().regret[:, -1])) > 1


def test_rules_meet_the_same_world():
    """The same seed gives the same budgets and contexts to every rule."""
    problem, budget = sp.problems.greedy_trap()
    runs = [sp.simulate(problem, sp.UCB1(2, 2), rule, budget, rounds=500, runs=2) for rule in RULES["tabular"]]
    for r in runs[1:]:
        np.testing.assert_array_equal(r.budget, runs[0].budget)
        np.testing.assert_array_equal(r.plays.sum(axis=2), runs[0].plays.sum(axis=2))


@pytest.mark.parametrize("adversary", ["contexts", "budget"])
def test_long_tapes_are_read_in_blocks(adversary):
    """More rounds than a block: contexts and budgets go on where they stopped."""
    problem, budget = sp.problems.greedy_trap(adversary)
    options = {"rounds": 40_000, "runs": 1, "checkpoints": 7}
    fast = sp.simulate(problem, sp.UCB1(2, 2), sp.PaperMatching(), budget, **options)
    same(fast, sp.simulate(problem, sp.UCB1(2, 2), sp.PaperMatching(), budget, path="agent", **options))


def test_checkpoints():
    assert small(checkpoints=5, spacing="linear").rounds.tolist() == [400, 800, 1200, 1600, 2000]
    assert small(checkpoints=4).rounds.tolist() == [1, 13, 159, 2000]
    assert small(checkpoints=1).rounds.tolist() == [2000]
    assert small(rounds=3, checkpoints=200).rounds.tolist() == [1, 2, 3]
    assert small(checkpoints=[5, 7]).rounds.tolist() == [5, 7]


def test_the_record_is_of_its_rounds():
    """The first arm is always played, and loses 1; B(t) = 2t."""
    problem, learner = sp.problems.Arms([0, 1], rewards="fixed"), sp.UCB1(2, ties="first")
    for path in ("fast", "plain", "agent"):
        r = sp.simulate(
            problem, learner, sp.Never(), sp.budgets.Linear(2), rounds=9, runs=1, checkpoints=[1, 4, 9], path=path
        )
        assert (r.regret[0].tolist(), r.budget[0].tolist()) == ([1, 4, 9], [2, 8, 18])


def test_frame():
    frame = small(checkpoints=3).frame()
    assert len(frame) == 12
    assert frame.columns[:6].tolist() == ["run", "round", "regret", "asked", "spent", "budget"]
    assert set(frame["rule"]) == {"ExactMatching()"}
    assert set(frame["schedule"]) == {"Bernoulli(p=0.2, amount=1.0)"}
    result = small(checkpoints=3)
    for name in ("regret", "asked", "spent", "budget"):
        np.testing.assert_array_equal(frame[name], getattr(result, name).ravel())


@dataclasses.dataclass(frozen=True)
class PythonUCB1:
    """UCB1 in plain Python. `ones`: 1 if a rule explores by asks; then it is as if one answer more had been a 1."""

    arms: int
    contexts: int = 1
    costs: object = None
    ones: int = 0

    def start(self):
        shape = (self.contexts, self.arms)
        return {"count": np.zeros(shape, dtype=int), "total": np.zeros(shape)}

    def choose(self, state, context, round, random):
        n = np.maximum(state["count"][context], 1)
        level = np.sqrt(1.5 * np.log(max(self.arms * self.contexts * round, 2)))
        mean = state["total"][context] / n
        if self.ones:
            mean += (1 - mean) / (state["count"][context] + 1)
        return int(np.argmax(mean + level * (1 / np.sqrt(n))))

    def exploit(self, state, context, action):
        count, total = state["count"][context], state["total"][context]
        return int(np.argmax((total + 0.5) / (count + 1))) if count.any() else action

    def learn(self, state, context, action, reward):
        state["count"][context, action] += 1
        state["total"][context, action] += reward


@dataclasses.dataclass(frozen=True)
class PythonExact:
    """ExactMatching written by a user, in plain Python."""

    def asks(self, question):
        return question.cost == 0 or (question.asked + 1) * question.total_cost <= question.budget + 1e-9


@pytest.mark.parametrize("rule", [r for r in RULES["tabular"] if r != sp.Greedy(policies=3)], ids=repr)
def test_parts_in_plain_python_give_the_same_trajectories(rule):
    for problem in (PROBLEMS["bernoulli"], PROBLEMS["contexts"]):
        contexts, arms = problem.shape
        options = {"rounds": 300, "runs": 2, "checkpoints": range(1, 301)}
        budget = sp.budgets.Linear(0.3)
        ones = rule.explore == "asked" and not rule.reduction
        own = sp.simulate(problem, PythonUCB1(arms, contexts, ones=ones), rule, budget, **options)
        ours = sp.simulate(problem, sp.UCB1(arms, contexts, ties="first"), rule, budget, **options)
        if rule.paced and contexts > 1:  # the scores of rounds need the indices of a compiled learner
            assert (own.asked <= own.budget).all()
        elif rule == sp.Greedy():  # its reservoir draws from the learner's own randomness: same law, other draws
            np.testing.assert_array_equal(own.asked, ours.asked)
        else:
            same(own, ours)
        if rule == sp.ExactMatching():
            made = sp.UCB1(arms, contexts, ties="first")
            same(sp.simulate(problem, made, PythonExact(), budget, **options), ours)


class Ramp(sp.problems.ContextualArms):
    """A problem of one's own: the k-th answer of a cell is k/100."""

    def draw(self, context, action, key, k):
        return min(k / 100, 1.0)


def test_a_problem_of_ones_own():
    r = sp.simulate(Ramp([[0.5, 0.5]]), sp.UCB1(2, ties="first"), sp.Always(), 50, rounds=100, runs=2)
    assert (r.asked[:, -1] == 50).all()
    np.testing.assert_array_equal(r.plays[0], r.plays[1])


def test_adaptive_adversaries_see_the_history():
    seen = []

    def pick(history):
        seen.append(history)
        history.memory["calls"] = history.memory.get("calls", 0) + 1
        assert history.memory["calls"] == history.round
        return 0 if history.grew else 1

    problem = sp.problems.ContextualArms([[0.5, 0.5], [0.0, 1.0]], sp.contexts.Adaptive(pick), rewards="fixed")
    adaptive = sp.simulate(problem, sp.UCB1(2, 2), sp.ExactMatching(), sp.budgets.Bernoulli(0.5), rounds=300, runs=1)
    trap, budget = sp.problems.greedy_trap()
    same(adaptive, sp.simulate(trap, sp.UCB1(2, 2), sp.ExactMatching(), budget, rounds=300, runs=1))
    assert [h.round for h in seen] == list(range(1, 301))
    assert seen[0].last is None
    assert seen[1].last is not None
    assert seen[-1].plays.sum() == 299
    assert seen[-1].asked.sum() == seen[-1].spent


def test_an_adaptive_budget_equals_its_tape():
    adaptive = sp.budgets.Adaptive(lambda history: history.granted + (history.context == 0))
    trap, budget = sp.problems.greedy_trap("budget")
    options = {"rounds": 300, "runs": 2}
    same(
        sp.simulate(trap, sp.UCB1(2, 2), sp.PaperMatching(), adaptive, **options),
        sp.simulate(trap, sp.UCB1(2, 2), sp.PaperMatching(), budget, **options),
    )


def test_adversaries_that_break_the_rules_are_refused():
    shrinking = sp.budgets.Adaptive(lambda history: 10 - history.round)
    with pytest.raises(sp.InvalidInput, match="only grows"):
        sp.simulate(PROBLEMS["bernoulli"], sp.UCB1(3), sp.Never(), shrinking, rounds=5, runs=1)
    outside = sp.problems.ContextualArms([[0.5], [0.5]], sp.contexts.Adaptive(lambda history: 2))
    with pytest.raises(sp.InvalidInput, match="picked context 2"):
        sp.simulate(outside, sp.UCB1(1, 2), sp.Never(), 5, rounds=5, runs=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"runs": 0}, "runs"),
        ({"checkpoints": 0}, "checkpoint"),
        ({"checkpoints": [3, 2]}, "increase"),
        ({"checkpoints": [1, 99_999]}, "lie in 1"),
        ({"checkpoints": [0.5]}, "whole"),
        ({"checkpoints": np.array([50, 20], dtype=np.uint64)}, "increase"),
        ({"jobs": -1}, "jobs"),
        ({"jobs": 1.5}, "jobs"),
        ({"rounds": 10**26}, "rounds"),
        ({"spacing": "cubic"}, "spacing"),
        ({"path": "scenic"}, "path"),
    ],
)
def test_bad_options(changes, message):
    with pytest.raises(sp.InvalidInput, match=message):
        small(**changes)


def test_parts_that_do_not_fit():
    with pytest.raises(sp.InvalidInput, match=r"use UCB1\(arms=3, contexts=1\)"):
        sp.simulate(PROBLEMS["bernoulli"], sp.UCB1(4), sp.Never(), 5)
    with pytest.raises(sp.InvalidInput, match="is not a problem"):
        sp.simulate([0.5], sp.UCB1(1), sp.Never(), 5)
    with pytest.raises(sp.InvalidInput, match="is not a rule"):
        sp.simulate(PROBLEMS["bernoulli"], sp.UCB1(3), "Never", 5)
    with pytest.raises(sp.InvalidInput, match="different costs"):
        sp.simulate(PROBLEMS["beta with costs"], sp.UCB1(3, costs=[1, 1, 1]), sp.Never(), 5)
    with pytest.raises(sp.InvalidInput, match="would never grow"):
        sp.simulate(PROBLEMS["bernoulli"], sp.UCB1(3), sp.Never(), sp.budgets.WhenContext(5))
    trap = sp.problems.greedy_trap().problem
    for budget in (sp.budgets.WhenContext(0), sp.budgets.Adaptive(lambda history: history.round)):
        with pytest.raises(sp.InvalidInput, match="depend on the budget and"):
            sp.simulate(trap, sp.UCB1(2, 2), sp.Never(), budget)
    with pytest.raises(sp.InvalidInput, match="OFUL is not for arms"):
        sp.simulate(trap, sp.OFUL(2), sp.Never(), 1)


@pytest.mark.parametrize("budget", [sp.budgets.Bernoulli(1.0, np.inf), sp.budgets.Bernoulli(0.5, 1e12)], ids=repr)
def test_huge_budgets_never_wrap_around(budget):
    r = sp.simulate(PROBLEMS["bernoulli"], sp.UCB1(3), sp.Always(), budget, rounds=200, runs=1, checkpoints=200)
    np.testing.assert_array_equal(np.maximum.accumulate(r.budget[0]), r.budget[0])
    assert (r.spent <= r.budget).all()


def test_memory_does_not_grow_with_rounds():
    """A billion rounds and a budget of a million leave behind what was asked for, and nothing else."""
    import tracemalloc

    tracemalloc.start()
    sp.simulate(sp.problems.Arms([0.5, 0.6]), sp.UCB1(2), sp.ExactMatching(), 10**6, rounds=10**9, runs=1, jobs=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


def test_intervals_know_how_few_the_runs_are():
    """Against scipy's Student: within 0.2 % for every number of runs."""
    for runs in (*range(2, 40), 100, 10_000):
        assert student(runs - 1) == pytest.approx(stats.t.ppf(0.975, runs - 1), rel=2e-3), runs
    r = sp.simulate(sp.problems.Arms([0.4, 0.6]), sp.UCB1(arms=2), sp.ExactMatching(), 50, rounds=200, runs=4)
    mean, half = r.final_regret()
    low, high = stats.t.interval(0.95, 3, r.regret[:, -1].mean(), stats.sem(r.regret[:, -1]))
    assert (mean - half, mean + half) == pytest.approx((low, high), rel=2e-3)


COSTS = [1.0, 1.0, 40.0]


def dear_world(costs):
    return sp.problems.Linear([0.0, 0.9, 0.0], np.eye(3), costs=costs), sp.OFUL(3, costs=costs)


def test_a_budget_too_small_for_what_exact_matching_promises_is_said():
    """Prices that differ, with features: the warning names the price, the budget that is needed and what to do."""
    needed = sp.theory.upper.least_budget(3, COSTS)
    with pytest.warns(sp.BudgetWarning, match=r"cost 40.*from a budget of .* the budget ends at 200.*BalancedMatching"):
        sp.simulate(*dear_world(COSTS), sp.ExactMatching(), 200, rounds=10, runs=1)
    with pytest.warns(sp.BudgetWarning):
        sp.simulate(*dear_world(COSTS), sp.ExactMatching(), sp.budgets.Linear(0.99 * needed / 50), rounds=50, runs=1)


@pytest.mark.parametrize(
    ("costs", "rule", "budget"),
    [
        (COSTS, sp.ExactMatching(), 5_000),
        (COSTS, sp.ExactMatching(), math.inf),
        (COSTS, sp.ExactMatching(), sp.budgets.Bernoulli(0.5)),
        (COSTS, sp.BalancedMatching(), 200),
        (COSTS, sp.Always(), 200),
        ([40.0, 0.0, 40.0], sp.ExactMatching(), 20),
        (None, sp.ExactMatching(), 1),
    ],
)
def test_otherwise_nothing_is_said(costs, rule, budget):
    """Warnings are errors in these tests."""
    sp.simulate(*dear_world(costs), rule, budget, rounds=10, runs=1)
