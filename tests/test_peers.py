"""The comparison with other packages: its accounting, with candidates made up here, none of the peers installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from benchmarks.peers import measuring, report
from benchmarks.peers.__main__ import command
from benchmarks.peers.candidates import everybody
from benchmarks.peers.figure import draw
from benchmarks.peers.ours import OURS
from benchmarks.peers.rounds import Candidate, Trial, is_labelled, present, run

import sparingly as sp
from sparingly.lab.table_runs import Uniform, run_on_table
from sparingly.problems import real

SHARE, ROUNDS = 0.1, 400


class Recorder:
    """Plays action 0, asks as it is told, and writes down everything that reaches it."""

    def __init__(self, facts, setting, seeds):
        self.facts, self.every, self.seen = facts, setting.get("every", 1), []
        self.inputs, self.told = [], []
        Recorder.last = self

    def decide(self, inputs):
        self.inputs.append(np.array(inputs))
        return 0, (len(self.inputs) - 1) % self.every == 0

    def learn(self, answer):
        self.told.append((len(self.inputs) - 1, answer))


def candidate(**more):
    return Candidate("made up", "sparingly", Recorder, "", "made up", **more)


def ours(name=OURS):
    return next(c for c in everybody() if c.name == name)


@pytest.fixture(scope="module")
def lines():
    random = np.random.default_rng(3)
    x = random.normal(size=(700, 4))
    return real.labelled("lines", x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 0))


def trial(asked, budget, warm=0):
    asked = np.asarray(asked, dtype=bool)
    return Trial(np.arange(asked.size), asked * 0, asked, asked * 0.0, budget, warm, 0.0)


def test_overshoot_is_that_of_the_worst_moment():
    early = trial([1, 1, 1, 0, 0, 0, 0, 0, 0, 0], budget=3)  # within the whole budget, far ahead of a growing one
    assert (early.asks, early.over) == (3, 0)
    assert early.ahead == pytest.approx(3 - 0.9)
    late = trial([0] * 7 + [1] * 3, budget=3)
    assert (late.over, late.ahead) == (0, 0.0)
    much = trial([0, 1] * 5, budget=3)
    assert much.over == 2 and much.ahead == pytest.approx(2.0)
    middle = trial([0, 1, 1, 1, 1, 0, 0, 0, 0, 0], budget=5)  # the worst moment is in the middle
    assert middle.over == 0 and middle.ahead == pytest.approx(4 - 2.5)


def test_what_was_asked_in_a_candidates_place_is_not_held_against_it():
    assert trial([1, 1, 0, 0, 0, 0], budget=3, warm=2).ahead == 0.0
    assert trial([1, 1, 1, 0, 0, 0], budget=3, warm=2).ahead == pytest.approx(1 - 1 / 4)
    assert trial([1, 1, 1, 1, 0, 0], budget=3, warm=2).over == 1  # but it counts as spent


def test_everybody_meets_the_same_rounds(lines):
    plain = run(lines, candidate(), SHARE, ROUNDS, seed=5)
    first = np.array(Recorder.last.inputs)
    run(lines, candidate(asking="uniform", feedback="label"), 0.3, ROUNDS, seed=5)
    assert np.array_equal(first, Recorder.last.inputs)
    mine = run(lines, ours(), SHARE, ROUNDS, seed=5)
    assert np.array_equal(plain.rows, mine.rows)
    assert not np.array_equal(plain.rows, run(lines, candidate(), SHARE, ROUNDS, seed=6).rows)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (OURS, sp.BalancedMatching()),
        ("sparingly, exact matching", sp.ExactMatching()),
        ("sparingly, asks until spent", sp.Always()),
        ("sparingly, asks at random", Uniform()),
    ],
)
def test_ours_are_those_of_the_laboratory(lines, name, rule):
    theirs = run_on_table(lines, lines.learner(), rule, SHARE * ROUNDS, ROUNDS, seed=9)
    mine = run(lines, ours(name), SHARE, ROUNDS, seed=9)
    assert np.array_equal(mine.actions, theirs.actions) and np.array_equal(mine.asked, theirs.asked)
    assert mine.asks > 0


@pytest.mark.parametrize("feedback", ["reward", "label"])
@pytest.mark.parametrize("asking", ["own", "capped", "uniform"])
def test_a_candidate_is_told_what_it_asked_for_and_nothing_else(lines, feedback, asking):
    done = run(lines, candidate(feedback=feedback, asking=asking), SHARE, ROUNDS, seed=1, setting={"every": 3})
    rounds, answers = np.array(Recorder.last.told).T
    assert np.array_equal(rounds, np.flatnonzero(done.asked)) and 0 < done.asks < ROUNDS
    rewards = lines.rewards[done.rows[done.asked]]
    assert np.array_equal(answers, rewards[:, 0] if feedback == "reward" else rewards.argmax(axis=1))


def test_unasked_answers_change_nothing(lines):
    """Answers that were not asked for are turned round: all that a candidate does stays the same."""
    for name in (OURS, "sparingly, asks until spent", "sparingly, asks at random"):
        before = run(lines, ours(name), SHARE, 300, seed=2)
        assert before.asks > 0
        rewards = lines.rewards.copy()
        asked = set(before.rows[before.asked].tolist())
        others = [row for row in range(len(lines)) if row not in asked]
        rewards[others] = 1.0 - rewards[others]
        after = run(
            real.Table("turned", lines.actions, shared=lines.shared, rewards=rewards), ours(name), SHARE, 300, 2
        )
        assert np.array_equal(before.actions, after.actions) and np.array_equal(before.asked, after.asked)
        assert before.rewards.sum() != after.rewards.sum()


def test_a_counter_stops_a_candidate_and_without_one_it_overspends(lines):
    budget = round(SHARE * ROUNDS)
    capped = run(lines, candidate(asking="capped"), SHARE, ROUNDS, seed=0)
    assert capped.asked[:budget].all() and capped.asks == budget and capped.over == 0
    own = run(lines, candidate(), SHARE, ROUNDS, seed=0)
    assert own.asks == ROUNDS and own.over == ROUNDS - budget
    drawn = run(lines, candidate(asking="uniform"), SHARE, ROUNDS, seed=0, setting={"every": 10**6})
    assert drawn.asks == budget and not drawn.asked[:budget].all()
    always = run(lines, candidate(asking="capped"), SHARE, ROUNDS, seed=0, setting={"every": 50}, always=True)
    assert always.asks == ROUNDS and always.over == 0


def test_ours_never_exceed_any_budget(lines):
    for name in (OURS, f"{OURS}, growing budget", "sparingly, exact matching", "sparingly, asks until spent"):
        for seed in range(3):
            assert run(lines, ours(name), 0.2, ROUNDS, seed).over == 0
    growing = run(lines, ours(f"{OURS}, growing budget"), 0.5, ROUNDS, seed=0)
    assert growing.ahead == 0.0 and growing.asks > 0


def test_missing_packages_are_reported_and_the_others_stay():
    gone = Candidate("gone", "no_such_package_anywhere", Recorder, "", "gone")
    found, missing = present([candidate(), gone])
    assert [c.name for c in found] == ["made up"]
    assert list(missing) == ["no_such_package_anywhere"] and "No module named" in missing["no_such_package_anywhere"]


@pytest.fixture
def small(lines, monkeypatch):
    """A study with two candidates of our own, one that overspends, one that fails."""

    def broken(facts, setting, seeds):
        raise RuntimeError("out of order")

    people = [
        ours(),
        Candidate("soft", "sparingly", Recorder, "says | so", "soft", grid=({"every": 2}, {"every": 10}), aim="labels"),
        Candidate("broken", "sparingly", broken, "", "broken"),
    ]
    for module in (measuring, report):
        monkeypatch.setattr(module, "everybody", lambda: people)
    monkeypatch.setattr(measuring, "table_of", lambda name: lines)
    measuring.by_name.cache_clear()
    yield measuring.Study(("lines",), (0.05, SHARE), ROUNDS, seeds=3), people
    measuring.by_name.cache_clear()


def test_a_study_goes_on_when_a_candidate_fails(small, tmp_path, capsys):
    study, people = small
    settings = measuring.pilot(study, people)
    assert settings["soft", "lines", SHARE] == {"every": 10}  # 40 of 40 labels, not 200
    runs, failures = measuring.measure(study, people, settings)
    assert failures == {"broken": "RuntimeError: out of order"}
    assert len(runs) == 2 * 2 * 3 and set(runs["candidate"]) == {OURS, "soft"}
    soft = runs[(runs["candidate"] == "soft") & (runs["share"] == 0.05)]
    assert (soft["asks"] == 40).all() and (soft["over"] == 20).all()
    assert (runs[runs["candidate"] == OURS]["over"] == 0).all() and runs["always"].notna().all()
    runs.to_parquet(tmp_path / "runs.parquet")
    pandas.DataFrame({"candidate": [OURS], "best": [1e-6], "spread": [0.1]}).to_parquet(tmp_path / "speed.parquet")
    about = '{"command": "c", "rounds": 400, "seeds": 3, "turns": 1, "speed_rounds": 9, "missing": {"gone": "no"}}'
    (tmp_path / "about.json").write_text(about)
    text = report.written(tmp_path)
    assert "Not measured: gone (no)" in text and "20 (100 %)" in text and "says \\| so (every: 10)" in text
    draw(runs, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_differences_are_paired_and_judged_together():
    rewards = {OURS: [0.1, 0.5, 0.9, 0.3], "better": [0.2, 0.61, 1.0, 0.39], "alike": [0.11, 0.49, 0.91, 0.28]}
    rows = [
        {"data": "d", "share": 0.1, "seed": seed, "candidate": name, "reward": value}
        for name, values in rewards.items()
        for seed, value in enumerate(values)
    ]
    said = report.paired(pandas.DataFrame(rows)).set_index("candidate")
    assert said.loc["better", "sign"] == "above" and said.loc["better", "difference"] == pytest.approx(0.1)
    assert said.loc["alike", "sign"] == "" and said.loc["alike", "p"] > 0.3
    assert report.p_value(np.full(3, 0.1)) == 1.0


def test_the_document_holds_what_the_command_wrote():
    text = (Path(__file__).parent.parent / "docs" / "peers.md").read_text(encoding="utf-8")
    _, begun, rest = text.partition(report.BEGIN)
    written, ended, _ = rest.partition(report.END)
    assert begun and ended and "`python -m benchmarks.peers --document`" in written
    assert all(
        f"| {c.name} |" in written for c in everybody() if c.module != "sparingly"
    )  # ours are of today: above them


def test_labels_are_told_only_where_there_are_labels(lines):
    assert is_labelled(lines)
    random = np.random.default_rng(0)
    rated = real.Table("rated", ("a", "b"), features=np.full((200, 2, 3), 0.1), rewards=random.random((200, 2)))
    assert not is_labelled(rated)
    assert all(not c.fits(rated) for c in everybody() if c.feedback == "label")


def test_the_command_in_the_document_names_no_folder():
    assert command(["--jobs", "2", "--out", "somewhere"]) == "python -m benchmarks.peers --jobs 2"
    assert command(["--out", "somewhere", "--document"]) == "python -m benchmarks.peers --document"
