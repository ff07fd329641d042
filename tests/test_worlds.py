"""The benchmark that measures choice: its worlds, its accounting and its judgement, on a few short runs."""

from __future__ import annotations

import dataclasses
import json
import math
from random import Random

import numpy as np
import pandas
import pytest
from benchmarks.worlds import episodes, judging, losses, measuring, report
from benchmarks.worlds.__main__ import ROOT, options
from benchmarks.worlds.candidates import BASELINES, EVERYBODY, OURS, ZERO, make_baseline, rule_for, run, taking_part
from benchmarks.worlds.figure import draw
from benchmarks.worlds.playing import play, run_rule, silence, stage_for
from benchmarks.worlds.suite import WORLDS
from benchmarks.worlds.world import SETTINGS, SHAPES, TAGS, Answers, unknowns

import sparingly as sp

# An id never changes its meaning: a world that is changed gets a new id, and the old one goes.
RECIPES = {
    "arms-ten-plenty": ("friendly", "at once", 10_000, 100_000),
    "zipf-scarce": ("uneven", "evenly", 100, 20_000),
    "groups-others-20000": ("adversarial", "at once", 20_000, 100_000),
    "features-random": ("friendly", "random", 200, 10_000),
    "chain-periodic": ("friendly", "periodic", 880, 10_000),
    "digits-5-evenly": ("friendly", "evenly", 200, 4_000),
    "silent-arm": ("uneven", "at once", 300, 5_000),
}


def short(name: str, rounds: int = 400):
    """A world with fewer rounds."""
    return dataclasses.replace(WORLDS[name], rounds=rounds)


def test_there_are_worlds_of_every_kind():
    assert len(WORLDS) >= 30 and all(world.id == key for key, world in WORLDS.items())
    worlds = WORLDS.values()
    assert {world.tag for world in worlds} == set(TAGS)
    assert {world.setting for world in worlds} == set(SETTINGS)
    assert {world.shape for world in worlds} == set(SHAPES.values())
    assert {(w.tag, w.setting) for w in worlds} >= {(t, s) for t in TAGS for s in ("arms", "contexts", "features")} - {
        ("drifting", "arms")
    }
    ratios = [world.amount / unknowns(world.problem(0)) for world in worlds if world.setting != "table"]
    assert min(ratios) <= 0.2 and max(ratios) >= 50
    assert {w.answers for w in worlds} >= {Answers(late=200), Answers(late=500), Answers(silent_share=0.3)}


@pytest.mark.parametrize("name", RECIPES)
def test_ids_keep_their_meaning(name):
    world = WORLDS[name]
    assert (world.tag, world.shape, world.amount, world.rounds) == RECIPES[name]


def test_every_rule_and_baseline_takes_part_where_it_fits():
    assert {*BASELINES, "ExactMatching", "PaperMatching", "Matching", "Greedy", "Always", ZERO} <= set(
        taking_part(WORLDS["arms-ten-few"])
    )
    assert "PaperMatching" not in taking_part(WORLDS["features-costs"])  # proved for unit costs only
    if hasattr(sp, OURS):
        assert all(OURS in taking_part(world) for world in WORLDS.values())


@pytest.mark.parametrize("name", ["arms-six-costs", "zipf-random", "trap-contexts", "half-spaces", "features-costs"])
def test_a_round_by_round_run_meets_what_a_simulation_meets(name):
    """The same rule on an Agent, in the rounds that baselines meet, loses exactly what it loses in `sp.simulate`."""
    world = short(name)
    for seed in (0, 3):
        problem = world.problem(seed)
        rule = rule_for("ExactMatching", world, problem)
        fast, slow = (run_rule(world, problem, rule, seed, by_rounds) for by_rounds in (False, True))
        assert slow.regret == pytest.approx(fast.regret, rel=1e-9) and slow.reward == pytest.approx(fast.reward)
        assert (slow.asks, slow.spent, slow.budget) == (fast.asks, fast.spent, fast.budget)


class Recorder:
    """Asks as often as it is allowed to, and writes down what it meets."""

    refused = 0

    def __init__(self, action):
        self.action, self.seen, self.told, self.spent = action, [], [], 0

    def decide(self, context, budget):
        self.seen.append((np.copy(context), budget))
        self.spent += self.spent + 1 <= budget
        return self.action, len(self.told) < self.spent, len(self.seen)

    def learn(self, ticket, reward):
        self.told.append((ticket, reward))


@pytest.mark.parametrize("name", ["zipf-random", "features-random", "phishing-5-evenly"])
def test_two_candidates_meet_the_same_contexts_budgets_and_noise(name):
    world = short(name, 300)
    problem = world.problem(1)
    players = [Recorder(0), Recorder(0), Recorder(1)]
    for player in players:
        play(stage_for(world, problem, 1), player, world.answers, silence(world, 1))
    for first, second in zip(players[0].seen, players[2].seen, strict=True):
        assert np.array_equal(first[0], second[0]) and first[1] == second[1]
    assert players[0].told == players[1].told and players[0].told
    other = Recorder(0)
    play(stage_for(world, world.problem(2), 2), other, world.answers, silence(world, 2))
    assert not all(np.array_equal(a[0], b[0]) for a, b in zip(players[0].seen, other.seen, strict=True))


def test_the_kth_answer_of_a_cell_is_the_same_for_everybody():
    world = short("arms-ten-once", 50)
    problem = world.problem(0)
    first, second = stage_for(world, problem, 0), stage_for(world, problem, 0)
    answers = [first.settle(t, 0, 2, True) for t in range(10)]
    for t in range(20):
        second.settle(t, 0, 5, True)
    assert [second.settle(20 + t, 0, 2, True) for t in range(10)] == answers


@pytest.mark.parametrize(
    "name", ["arms-six-costs", "zipf-costs", "zipf-random", "kinds-once", "mdp-evenly", "mdp-sparse"]
)
@pytest.mark.parametrize("candidate", BASELINES)
def test_baselines_never_overspend(name, candidate):
    world = short(name)
    for seed in range(3):
        outcome = run(world, candidate, seed)
        assert outcome.over <= 0.0 and outcome.spent <= outcome.budget and outcome.refused == 0
        assert outcome.asks > 0


def test_an_overspend_would_be_seen():
    world = short("arms-ten-few", 100)

    class Spendthrift(Recorder):
        def decide(self, context, budget):
            return 0, True, None

    outcome = play(stage_for(world, world.problem(0), 0), Spendthrift(0), world.answers, silence(world, 0))
    assert outcome.over == 50 and outcome.asks == 100


def test_answers_come_late_or_never():
    late = dataclasses.replace(short("arms-ten-once", 100), answers=Answers(late=30, silent_arm=1))
    for action, told in ((0, 70), (1, 0)):
        player = Recorder(action)
        player.decide = lambda context, budget, player=player: (player.seen.append(0), (player.action, True, 0))[1]
        play(stage_for(late, late.problem(0), 0), player, late.answers, silence(late, 0))
        assert len(player.told) == told
    some = silence(dataclasses.replace(late, answers=Answers(silent_share=0.3), rounds=10_000), seed=0)
    assert 0.25 < some.mean() < 0.35  # five deviations are 0.023


def test_what_a_baseline_does_when_it_cannot_ask():
    """It never explores: with all asks spent it plays the best mean for ever."""
    world, problem = WORLDS["arms-ten-few"], WORLDS["arms-ten-few"].problem(0)
    for name in BASELINES:
        player = make_baseline(name, world, problem, 50.0, Random(0))
        for _ in range(2_000):
            action, ask, ticket = player.decide(0, 20.0)
            if ask:
                player.learn(ticket, float(action == 4))
        assert player.spent <= 20
        means = player.estimates.means[0]
        assert {player.decide(0, 20.0)[0] for _ in range(100)} <= {a for a, m in enumerate(means) if m == max(means)}


def test_what_a_policy_of_episodes_is_worth():
    problem = WORLDS["mdp-once"].problem(0)
    H, S, A = problem.shape
    policy = np.random.default_rng(0).integers(A, size=(H, S))
    V = np.zeros((H + 1, S))
    episodes.worth(problem.transitions(), problem.means, policy, 0.0, V)
    assert V[:H] == pytest.approx(problem.value(policy))
    episodes.worth(problem.transitions(), problem.means, problem.optimal_policy, 0.0, V)
    assert V[:H] == pytest.approx(problem.optimal_values)
    episodes.worth(problem.transitions(), problem.means, policy, 1.0, V)
    assert V[H - 1] == pytest.approx(problem.means[H - 1].mean(axis=1))


def of(**regrets):
    return pandas.DataFrame({name.replace("_", "-"): values for name, values in regrets.items()})


def test_losses_of_numbers_made_by_hand():
    found = losses.of_world(
        of(A=[10.0, 12, 8, 10], B=[20.0, 23, 17, 20], C=[10.5, 11.5, 8.4, 9.7], Never=[110.0, 112, 108, 110])
    ).set_index("candidate")
    assert found.loc["A", "best"] and found.loc["A", "loss"] == 0.0
    assert found.loc["Never", "loss"] == pytest.approx(1.0)
    assert found.loc["B", "loss"] == pytest.approx(0.1) and found.loc["B", "significant"]
    differences = np.array([10.0, 11, 9, 10])
    half = 3.182446305 * differences.std(ddof=1) / 2 / 100
    assert found.loc["B", "half"] == pytest.approx(half, rel=1e-6)
    assert found.loc["C", "loss"] == pytest.approx(0.00025) and not found.loc["C", "significant"]


def test_where_nothing_can_be_gained_nothing_is_lost():
    found = losses.of_world(of(A=[10.0, 12, 8], Never=[11.0, 9, 12])).set_index("candidate")
    assert found["loss"].isna().all() and not found["significant"].any()


def judged(ours_friendly, ours_adversarial, other, refused=0, over=0.0):
    """A verdict on made-up losses in one friendly and one adversarial world."""
    friendly, hostile = "arms-ten-few", "trap-contexts"
    rows = [
        (friendly, OURS, ours_friendly, 50.0), (friendly, "ExactMatching", other, 90.0), (friendly, ZERO, 1.0, 100.0),
        (hostile, OURS, 0.0, ours_adversarial), (hostile, "ExactMatching", 0.0, 10.0), (hostile, ZERO, 1.0, 100.0),
    ]  # fmt: skip
    table = pandas.DataFrame(rows, columns=["world", "candidate", "loss", "regret"])
    table = table.assign(significant=table["loss"] > 0, over=over, refused=refused)
    return [criterion.holds for criterion in judging.judge(table, WORLDS)]


def test_each_criterion_can_fail():
    assert judged(0.04, 20.0, other=0.2) == [True, True, True, True]
    assert judged(0.06, 20.0, other=0.2) == [False, True, True, True]
    assert judged(0.04, 26.0, other=0.2) == [True, False, True, True]
    assert judged(0.04, 20.0, other=0.1) == [True, True, False, True]
    assert judged(0.04, 20.0, other=0.2, refused=1) == [True, True, True, False]
    assert judged(0.04, 20.0, other=0.2, over=1.0) == [True, True, True, False]


def test_an_interrupted_suite_goes_on(tmp_path, monkeypatch):
    world = dataclasses.replace(short("arms-two-evenly"), id="tiny")
    monkeypatch.setitem(WORLDS, "tiny", world)
    store, tasks = measuring.Store(tmp_path), measuring.tasks_for(["tiny"], quick=True)
    runs = measuring.measure(tasks, store, jobs=1, show=False)
    assert len(runs) == 10 * len(tasks) and list(runs["seed"][:3]) == [0, 1, 2]
    kept = store.path(tasks[0])
    text = json.loads(kept.read_text())
    text["rows"][0]["regret"] = -5.0  # to see that it is read, not run
    kept.write_text(json.dumps(text))
    assert measuring.measure(tasks, store, jobs=1, show=False)["regret"][0] == -5.0
    monkeypatch.setitem(WORLDS, "tiny", dataclasses.replace(world, rounds=300))
    assert measuring.measure(tasks, store, jobs=1, show=False)["regret"][0] >= 0.0  # another world: run again


def test_long_worlds_get_fewer_seeds():
    assert [measuring.seeds_for(WORLDS[k]) for k in ("late-200", "groups-once", "arms-ten-plenty")] == [100, 50, 20]
    assert measuring.seeds_for(WORLDS["digits-1-once"], quick=True) == 4


def test_tables_and_figure(tmp_path, monkeypatch):
    names = ["arms-two-evenly", "trap-contexts"]
    for name in names:
        monkeypatch.setitem(WORLDS, name, short(name, 2_000))
    runs = measuring.measure(measuring.tasks_for(names, quick=True), measuring.Store(tmp_path), 1, show=False)
    found, worlds = losses.of_all(runs), [WORLDS[name] for name in names]
    text = report.written(found, worlds, judging.judge(found, WORLDS), "made by hand")
    assert all(name in text for name in names) and "| until spent, then the best mean |" in text
    assert math.isclose(found[(found["world"] == "trap-contexts") & (found["candidate"] == ZERO)]["loss"].iloc[0], 1.0)
    draw(found, worlds, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_document_shows_the_whole_suite():
    text = (ROOT / "docs" / "worlds.md").read_text(encoding="utf-8")
    _, begun, rest = text.partition(report.BEGIN)
    written, ended, _ = rest.partition(report.END)
    assert begun and ended and all(f"| {name} |" in written for name in WORLDS)
    with pytest.raises(SystemExit):
        options(["--document", "--quick"])
    assert options(["--only", "late-200,silent"]).ids == ["late-200", "silent-third", "silent-arm"]
    assert set(EVERYBODY) >= set(BASELINES)
