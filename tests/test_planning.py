"""Budget plans: they predict what the true model gives, depend on the seed alone, and say what they do not know."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import sparingly as sp
from sparingly.cli import app
from sparingly.errors import InvalidInput
from sparingly.lab import planning, planning_report
from sparingly.lab.planning import Curve, Plan, plan
from sparingly.lab.planning_cli import columns_from
from sparingly.problems import real
from tests.test_logged import MEANS, log_of
from tests.test_real import features_table, frame

LEARNER = sp.UCB1(arms=3, contexts=2, scale=0.5)


def truth(rounds, budget, means=MEANS):
    """The mean reward a round that simulation with the true model gives."""
    problem = sp.problems.ContextualArms(means)
    r = sp.simulate(problem, LEARNER, sp.ExactMatching(), budget, rounds=rounds, runs=400, seed=9)
    return means.max(axis=1).mean() - r.final_regret()[0] / rounds


def test_a_plan_from_a_log_predicts_what_simulation_with_the_true_model_gives():
    """Twenty logs, each with its own plan: 95 % intervals hold the truth in 12 or more (binomial, false alarm 4e-7)."""
    plans = [plan(log_of(600, seed), [90], ["ExactMatching"], LEARNER, runs=8, seed=seed, jobs=1) for seed in range(20)]
    expected = truth(plans[0].rounds, 90)
    intervals = [done.interval(done.curves["ExactMatching"].reward[0])[1:] for done in plans]
    assert sum(low <= expected <= high for low, high in intervals) >= 12
    assert max(high - low for low, high in intervals) < 0.4  # what says nothing would hold everything


def test_a_plan_from_a_log_of_another_world_does_not():
    """The test above can fail: where every reward is lower by 0.2, the prediction lies outside its interval."""
    done = plan(log_of(2_000, means=MEANS - 0.2), [180], ["ExactMatching"], LEARNER, runs=6, jobs=1)
    _, _, high = done.interval(done.curves["ExactMatching"].reward[0])
    assert high < truth(done.rounds, 180)


def test_a_plan_depends_on_the_seed_alone():
    table = features_table()
    one, two, other = (
        plan(table, [10, 40], ["ExactMatching", "uniform"], rounds=300, runs=3, seed=seed, jobs=jobs)
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    )
    for rule, curve in one.curves.items():
        assert np.array_equal(curve.reward, two.curves[rule].reward)
        assert np.array_equal(curve.when, two.curves[rule].when)
        assert not np.array_equal(curve.reward, other.curves[rule].reward)


def test_what_is_asked_is_counted_everywhere_alike():
    done = plan(features_table(), [0, 30, 80], ["ExactMatching", "Always", "uniform"], rounds=400, runs=3, jobs=1)
    for curve in done.curves.values():
        assert (curve.asks <= np.array(done.budgets)[:, None]).all()
        for counts in (curve.when, curve.by_action, curve.by_context):
            assert np.allclose(counts.sum(axis=1), curve.asks.mean(axis=1))
    assert (done.curves["uniform"].asks == np.array([[0], [30], [80]])).all()
    assert done.curves["Always"].when[2, :4].sum() == 80  # the first rounds
    assert np.array_equal(done.curves["ExactMatching"].reward[0], done.never)  # no budget, nothing asked


def made(rewards, always=1.0, never=0.0, budgets=(10.0, 100.0, 1000.0)):
    """A plan with given mean rewards, in two runs that are equal."""
    reward = np.repeat(np.array(rewards)[:, None], 2, axis=1)
    none = np.zeros((len(rewards), 20))
    curve = Curve(reward, reward, none, none[:, :2], none[:, :1])
    table = real.Table("t", ("a", "b"), contexts=np.zeros(200, dtype=int), rewards=np.tile([0.0, 1.0], (200, 1)))
    return Plan(table, LEARNER, budgets, 200, 2, 0, 0.95, {"r": curve}, np.full(2, always), np.full(2, never))


@pytest.mark.parametrize(
    ("rewards", "of", "never", "budget"),
    [
        ((0.96, 0.97, 0.98), "reward", 0.0, 10.0),
        ((0.90, 1.00, 1.00), "reward", 0.0, math.sqrt(10 * 100)),  # half way, on a logarithmic scale
        ((0.50, 0.60, 0.70), "reward", 0.0, math.inf),
        ((0.96, 0.98, 1.00), "gain", 0.8, math.sqrt(100 * 1000)),  # 95 % of the way from 0.8 to 1 is 0.99
    ],
)
def test_the_smallest_budget_that_is_enough(rewards, of, never, budget):
    need = made(rewards, never=never).need("r", of)
    assert [need.budget, need.low, need.high] == pytest.approx([budget] * 3)


def test_answers_say_what_is_not_known():
    assert "is not reached with 1,000 or less" in planning_report.answers(made((0.5, 0.6, 0.7)))[0]
    assert "the smallest budget tried" in planning_report.answers(made((0.96, 0.97, 0.98)))[0]
    assert "feedback teaches this learner nothing" in planning_report.answers(made((0.5, 0.5, 0.5), 0.5, 0.5))[0]
    assert "needs about 32 asks" in planning_report.answers(made((0.90, 1.00, 1.00)))[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Exact", "there is no rule 'Exact'"),
        ("Matching(alpha)", "name=value"),
        ("Matching(gamma=1)", "does not take gamma"),
    ],
)
def test_rules_that_do_not_exist(text, message):
    with pytest.raises(InvalidInput, match=message):
        planning.rule_from(text)


def test_learners_must_fit_the_data():
    table = features_table()
    assert planning.learner_from("OFUL(scale=0.3)", table) == sp.OFUL(table.dim, scale=0.3)
    assert planning.learner_from("MOSS", log_of(200)) == sp.MOSS(arms=3, contexts=2)
    with pytest.raises(InvalidInput, match="has features, use OFUL"):
        planning.learner_from("UCB1", table)


def test_columns_on_the_command_line():
    assert columns_from(["features=a,b", "label=c"]) == {"features": ["a", "b"], "label": "c"}
    assert columns_from([]) is None
    with pytest.raises(InvalidInput, match="PART=COLUMN"):
        columns_from(["colour=red"])


# The command

KINDS = {
    "arms": ["context=who", "rewards=small,large"],
    "classes": ["features=x_1,x_2", "label=label"],
    "log": ["context=who,action=did,reward=got,propensity=p"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_leaves_a_report_a_figure_and_data(tmp_path, kind):
    path, out = tmp_path / "rows.csv", tmp_path / "out"
    pandas.concat([frame()] * 3).to_csv(path, index=False)
    columns = [word for part in KINDS[kind] for word in ("--columns", part)]
    arguments = ["plan", str(path), "--budgets", "5,20", "--runs", "2", "--jobs", "1", "--out", str(out), *columns]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "of always" in done.output and "Report:" in done.output
    text = (out / "report.md").read_text()
    assert "How many questions" in text and "Where the asks go" in text and "| uniform | 20 |" in text
    assert ("Against asking at random" in text) == (kind != "log")
    assert (out / "figure.png").stat().st_size > 10_000 and "<svg" in (out / "figure.svg").read_text()
    runs = pyarrow.parquet.read_table(out / "curve.parquet").to_pandas()
    assert len(runs) == 2 * (2 + 3 * 2) and (runs["asks"] <= runs["budget"]).all()
    asks = pyarrow.parquet.read_table(out / "asks.parquet").to_pandas()
    assert set(asks["by"]) == {"time", "action", "context"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--budgets", "10"], "neither a file nor one of movielens"),
        (["iris", "--budgets", "ten"], "numbers with commas"),
        (["iris", "--budgets", "-3"], "a budget must be"),
        (["iris", "--budgets", "10", "--rules", "Best"], "there is no rule 'Best'"),
        (["iris", "--budgets", "10", "--columns", "label=x"], "built-in set"),
    ],
)
def test_mistakes_on_the_command_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["plan", *arguments])
    assert isinstance(done.exception, InvalidInput) and message in str(done.exception)


def test_warnings_about_the_data_are_shown_and_written(tmp_path):
    path = tmp_path / "few.csv"
    frame()[:10].to_csv(path, index=False)
    arguments = ["plan", str(path), "--budgets", "3", "--runs", "2", "--jobs", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--columns", "context=who", "--columns", "rewards=small,large"])
    assert "Warning: few has 10 rows only" in done.output
    assert "few has 10 rows only" in (tmp_path / "report.md").read_text()
