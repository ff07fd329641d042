"""Budget plans: they predict what the true model gives, depend on the seed alone, and say what they do not know."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import sparingly as sp
from sparingly.cli import app
from sparingly.errors import InvalidInput
from sparingly.lab import planning, planning_report
from sparingly.lab.planning import BudgetPlan, RuleCurve, plan
from sparingly.lab.planning_cli import columns_from, costs_from
from sparingly.problems import real
from tests.lab.test_off_policy import MEANS, SKEWED, log_of
from tests.problems.test_real import features_table, frame

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
    assert max(high - low for low, high in intervals) < 0.5  # what says nothing would hold everything


def test_with_few_runs_the_interval_of_a_plan_from_a_log_knows_that_they_are_few():
    """Three runs: where a fourth would lie, by Student's t. Level 95 %, 3,000 normal draws; false alarm below 1e-6."""
    done = made((0.5,), budgets=(10.0,))
    log = replace(done, data=log_of(200))
    draws = np.random.default_rng(0).normal(size=(3_000, 4))
    inside = [low <= draw[3] <= high for draw in draws for _, low, high in [log.interval(draw[:3])]]
    assert abs(np.mean(inside) - 0.95) < 4.9 * np.sqrt(0.95 * 0.05 / 3_000)


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


def test_a_rule_that_asks_nothing_is_said_to():
    table = features_table()
    done = plan(table, [0, 1, 2, 60], ["ExactMatching", "Always", "Never"], rounds=300, runs=2, jobs=1)
    assert not done.curves["ExactMatching"].asks[:3].any() and done.curves["ExactMatching"].asks[3].all()
    said = [note for note in done.notes if "asks nothing" in note]
    assert len(said) == 1 and said[0].startswith("ExactMatching asks nothing with a budget of 2 or less")
    assert f"there are {table.dim} unknowns" in said[0]


def made(rewards, always=1.0, never=0.0, budgets=(10.0, 100.0, 1000.0)):
    """A plan with given mean rewards, in two runs that are equal."""
    reward = np.repeat(np.array(rewards)[:, None], 2, axis=1)
    none = np.zeros((len(rewards), 20))
    curve = RuleCurve(reward, reward, reward, none, none[:, :2], none[:, :1])
    table = real.Table("t", ("a", "b"), contexts=np.zeros(200, dtype=int), rewards=np.tile([0.0, 1.0], (200, 1)))
    return BudgetPlan(table, LEARNER, budgets, 200, 2, 0, 0.95, {"r": curve}, np.full(2, always), np.full(2, never))


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


@pytest.mark.parametrize(
    ("budgets", "budget"), [((0.0, 0.5, 0.8), 0.25), ((0.1, 0.4, 0.8), 0.2), ((0.0, 10.0, 20.0), 5.0)]
)
def test_small_budgets_lie_between_those_tried_too(budgets, budget):
    """Half way: on a logarithmic scale, from 0 on a plain one. Amounts of money may be below 1."""
    assert made((0.90, 1.00, 1.00), budgets=budgets).need("r").budget == pytest.approx(budget)


def test_answers_say_what_is_not_known():
    assert "the largest budget tried, 1,000, is not enough" in planning_report.answers(made((0.5, 0.6, 0.7)))[0]
    assert "the smallest budget tried" in planning_report.answers(made((0.96, 0.97, 0.98)))[0]
    assert "feedback teaches this learner nothing" in planning_report.answers(made((0.5, 0.5, 0.5), 0.5, 0.5))[0]
    assert "needs a budget of about 32 asks" in planning_report.answers(made((0.90, 1.00, 1.00)))[0]


def test_a_plan_has_python_to_start_with():
    """It runs as it is, with the rule that reaches the goal with the least, and knows the names of the data."""
    for data in (log_of(2_000, means=MEANS - 0.2), features_table()):
        done = plan(data, [30, 90], ["ExactMatching", "Always(explore=always)"], rounds=200, runs=2, jobs=1)
        module = {}
        exec(planning_report.starter(done), module)
        agent = module["agent"]
        rows = np.zeros((len(data.actions), data.dim)) if data.dim else None
        decision = agent.decide(rows if data.dim else data.group_names[0] if data.groups > 1 else None)
        assert decision.action in (range(len(data.actions)) if data.dim else data.actions)
        assert 0 < agent.ledger.granted <= 90
        assert repr(agent).count(repr(done.learner)) == 1


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
    for text, message in {"UCBVI": "use UCB1 or MOSS", "UCB1(arms=7)": "leave arms out", "foo": "use UCB1"}.items():
        with pytest.raises(InvalidInput, match=message):
            planning.learner_from(text, log_of(200))


def test_columns_on_the_command_line():
    assert columns_from(["features=a,b", "label=c"]) == {"features": ["a", "b"], "label": "c"}
    assert columns_from([]) is None
    with pytest.raises(InvalidInput, match="PART=COLUMN"):
        columns_from(["colour=red"])


# Asks that cost money

COSTS = [1.0, 2.0, 0.5]


def spending(done):
    """What the asks of each rule have cost, by the actions that they were about, in the mean over runs."""
    return {rule: curve.by_action @ np.array(COSTS) for rule, curve in done.curves.items()}


@pytest.mark.parametrize("data", [log_of(3_000), features_table()], ids=["log", "table"])
def test_costs_are_accounted_for_everywhere(data):
    budgets, rules = [0.4, 7, 40], ["ExactMatching", "Greedy", "Always", "uniform"]
    done = plan(data, budgets, rules, rounds=200, runs=3, jobs=1, costs=COSTS)
    for rule, costs in spending(done).items():
        spent = done.curves[rule].spent
        assert np.allclose(costs, spent.mean(axis=1)) and (spent <= np.array(budgets)[:, None]).all(), rule
    plain = plan(data, budgets, ["uniform"], rounds=200, runs=3, jobs=1)
    for curve in (done.curves["uniform"], done.curves["Greedy"]):
        assert (curve.spent[2] > 40 - 2.0).all()  # all of it, but for less than the dearest ask
        assert not np.array_equal(curve.asks, plain.curves["uniform"].asks)
    assert (done.curves["uniform"].asks[0] == 0).all()  # 0.4 pays for nothing
    assert np.array_equal(done.always, plain.always)  # who may always ask does not care


def test_uniform_asking_with_costs_spends_evenly_and_passes_nobody_over():
    """Of 800 portions of money each half of the rounds gets a half: ± 7 % is one standard deviation, 40 % is 1e-6."""
    rewards = np.tile([[0.5, 0.5], [0.4, 0.4]], (500, 1))
    table = real.Table("t", ("a", "b"), contexts=np.zeros(1_000, dtype=int), rewards=rewards)
    done = plan(table, [100], ["uniform"], sp.UCB1(arms=2, ties="random"), runs=40, jobs=1, costs=[1, 5])
    curve = done.curves["uniform"]
    assert (curve.spent > 95).all() and (curve.spent <= 100).all()
    assert curve.when[0, :10].sum() == pytest.approx(curve.when[0, 10:].sum(), rel=0.4)
    assert 5 < curve.by_action[0, 1] < curve.by_action[0, 0]  # what a cheap ask leaves over pays for cheap ones


def test_equal_costs_are_a_change_of_units():
    table = features_table()
    one = plan(table, [10, 40], rounds=300, runs=2, jobs=1)
    ten = plan(table, [1.0, 4.0], rounds=300, runs=2, jobs=1, costs=[0.1] * 3)
    for rule, curve in one.curves.items():
        assert np.array_equal(curve.reward, ten.curves[rule].reward) and np.array_equal(
            curve.when, ten.curves[rule].when
        )


def test_what_is_free_is_asked_always():
    table = features_table()
    done = plan(table, [0], ["uniform", "Always"], rounds=100, runs=2, jobs=1, costs=[0, 0, 0])
    assert all((curve.asks == 100).all() and (curve.spent == 0).all() for curve in done.curves.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2", r"has 2 numbers for 3 actions: a, b, c"),
        ("a=1,b=2", "name each action once: a, b, c"),
        ("a=1,b=2,c=3,a=4", "name each action once"),
        ("a=1,b=2,3", "name each action once"),
        ("a=1,b=2,d=3", "name each action once"),
        ("1,2,much", "costs are numbers"),
    ],
)
def test_mistakes_in_costs(text, message):
    with pytest.raises(InvalidInput, match=message):
        costs_from(text, ("a", "b", "c"))


@pytest.mark.parametrize("costs", [[1, -2, 1], [1, math.nan, 1], [1, 2]])
def test_costs_that_cannot_be(costs):
    with pytest.raises(InvalidInput, match="cost"):
        plan(log_of(300), [10], ["uniform"], runs=1, jobs=1, costs=costs)


# What comes of it, by other methods


def test_policies_that_come_of_a_log_are_valued_by_several_methods():
    """A world whose best policy earns 0.75: with money for it the estimates come close, without they do not."""
    done = plan(log_of(6_000, 1), [0, 600], ["ExactMatching"], LEARNER, runs=2, jobs=1)
    poor, rich = done.policies["ExactMatching"]
    for method in ("ips", "snips", "dr"):
        assert poor[method].high < 0.6 < 0.7 < rich[method].value and rich[method].low < 0.75 < rich[method].high
        assert done.policies["asking never"][0][method].value == poor[method].value
    assert rich["dr"].effective > 500 and not done.notes
    text = planning_report.report(done, done.notes)
    assert "Off-policy estimates" in text and f"| ExactMatching | 600 | {rich['replay'].value:.3f} ±" in text


def test_a_plan_says_where_a_log_says_little():
    few = plan(log_of(400), [20], ["ExactMatching"], LEARNER, runs=2, jobs=1)
    assert any("of 3 estimates of policies rest on little" in note for note in few.notes)
    rare = plan(log_of(4_000, means=MEANS / 200), [20], ["ExactMatching"], LEARNER, runs=2, jobs=1)
    assert any("even with all feedback a replay has" in note for note in rare.notes)
    long = plan(log_of(2_000), [20], ["ExactMatching"], LEARNER, rounds=5_000, runs=2, jobs=1)
    assert any("too short for 5,000 rounds" in note for note in long.notes)


def test_contradictions_between_methods_are_told():
    """A log that claims to be uniform and is not: its weights do not add up, and ips is not snips."""
    with pytest.warns(real.DataWarning, match="propensities do not add up"):
        lying = log_of(6_000, chances=SKEWED, propensity=np.full(6_000, 1 / 3))
    done = plan(lying, [300], ["ExactMatching"], LEARNER, rounds=200, runs=2, jobs=1)
    assert any("contradict each other" in note for note in done.notes)


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
    assert "asking always" in done.output and "Report:" in done.output
    text = (out / "report.md").read_text()
    assert "How many questions" in text and "Where the asks go" in text and "| uniform | 20 |" in text
    assert ("Against asking at random" in text) == (kind != "log")
    assert (out / "figure.png").stat().st_size > 10_000 and "<svg" in (out / "figure.svg").read_text()
    runs = pyarrow.parquet.read_table(out / "curve.parquet").to_pandas()
    assert len(runs) == 2 * (2 + 4 * 2) and (runs["spent"] <= runs["budget"])[runs["budget"].notna()].all()
    assert (out / "policies.parquet").exists() == ("Off-policy estimates" in text) == (kind == "log")
    asks = pyarrow.parquet.read_table(out / "asks.parquet").to_pandas()
    assert set(asks["key"][asks["by"] == "context"]) == ({"context 0"} if kind == "classes" else {"a", "b"})
    assert set(asks["by"]) == {"time", "action", "context"}


def test_the_command_takes_costs(tmp_path):
    path = tmp_path / "rows.csv"
    frame().to_csv(path, index=False)
    arguments = ["plan", str(path), "--budgets", "2,9", "--runs", "2", "--jobs", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(
        app, [*arguments, "--columns", "rewards=small,large", "--costs", "large=0.5,small=0.25", "--rules", "Uniform"]
    )
    assert done.exit_code == 0, (done.output, done.exception)
    text = (tmp_path / "report.md").read_text()
    assert "An ask costs: small 0.25, large 0.5; budgets are money." in text and "| asks | spent |" in text
    assert "| uniform | 9 |" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["iris", "--budgets", "10", "--costs", "1,2"], "2 numbers for 3 actions"),
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
