"""The gallery: its programs run, repeat themselves and stay within their budgets, and its pages say what they say.

A conclusion of a page is tested by Student's interval of the difference, run by run, whose chance of a false alarm is
one in a million if means over runs are normal (`statistics.interval`). Where it is about means that the page shows
(which was ahead at first), those very means are compared: the same seed gives the same numbers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas
import pytest
from scipy import stats

from sparingly.lab.claims.statistics import ALARM, interval

ROOT = Path(__file__).parent.parent
NAMES = ("recommender", "model_router", "labelling", "frozen_lake")
EXACT, OURS = "ExactMatching", "BalancedMatching"


def run(name: str, out: Path, *arguments: str) -> tuple[str, pandas.DataFrame]:
    """Run a program of the gallery; what it prints, and its data."""
    command = [sys.executable, ROOT / "examples" / "gallery" / f"{name}.py", "--out", out, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=out.parent)
    assert done.returncode == 0, done.stderr
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    data = pandas.read_parquet(out / "data.parquet")
    assert (data["spent"] <= data["granted"]).all()  # at every mark of every run
    return done.stdout, data


@cache
def page(name: str) -> str:
    return (ROOT / "docs" / "gallery" / f"{name}.md").read_text(encoding="utf-8")


def table_of(name: str) -> str:
    """The table in a page, which must have its marks once."""
    (table,) = re.findall(r"^<!-- table -->\n(.*?)^<!-- /table -->$", page(name), flags=re.DOTALL | re.MULTILINE)
    return table


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def gain(data: pandas.DataFrame, column: str, over: str, of: str = OURS) -> float:
    """How much more of `column` one strategy has than another, in the mean of a run: the lower end of the interval."""
    runs = data.pivot_table(index="run", columns="strategy", values=column)
    return float(interval((runs[of] - runs[over]).to_numpy())[1])


def same(first: pandas.DataFrame, second: pandas.DataFrame) -> None:
    """The same strategies, runs and numbers, to the last bit."""
    pandas.testing.assert_frame_equal(first.reset_index(drop=True), second.reset_index(drop=True), check_exact=True)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Run a program with --quick, once."""
    return cache(lambda name: run(name, tmp_path_factory.mktemp(name) / "out", "--quick"))


@pytest.mark.parametrize("name", NAMES)
def test_a_program_runs_quickly_and_repeats_itself(name, quick, tmp_path):
    printed, data = quick(name)
    shown, written = cells(printed), cells(table_of(name))
    assert [row[1:] for row in shown[:2]] == [row[1:] for row in written[:2]]  # the same columns as in the page
    assert [row[0] for row in shown[2:]] == [row[0] for row in written[2:]]  # and the same strategies
    assert list(data["strategy"].unique()) == [row[0] for row in shown[2:]]
    again, repeated = run(name, tmp_path / "again", "--quick", "--seed", "0", "--runs", "1")
    same(data[data["run"] == 0], repeated)  # however many runs there are
    assert name != "labelling" or again == printed  # it has one run only
    assert (tmp_path / "again" / "figure.png").stat().st_size > 20_000


def test_another_seed_is_another_run(quick, tmp_path):
    _, other = run("model_router", tmp_path / "out", "--quick", "--seed", "1")
    assert not other.equals(quick("model_router")[1])


def test_recommender(tmp_path):
    """The page: above asking nobody, close to asking always, and the budget holds with late and missing answers."""
    printed, data = run("recommender", tmp_path / "out")
    assert printed == table_of("recommender")
    assert gain(data, "reward", over="Never") > 0.0
    assert gain(data, "reward", over="asking at random", of="asking always, no budget") > 0.0
    limited = data[data["strategy"] != "asking always, no budget"]
    assert limited["asked"].max() == limited["granted"].max() == 1_000
    late = data[data["strategy"] == OURS]
    assert (late["answered"] < late["asked"]).all()
    means = data.groupby("strategy")["reward"].mean()
    assert means[OURS] > 0.97 * means["asking always, no budget"]
    assert means["Always, until it is spent"] >= max(
        means[OURS], means[EXACT]
    )  # the simple rule wins, as the page says


def test_model_router(tmp_path):
    """The page: ours has the best router for less money, at first and in the end; exact matching starts slowly."""
    printed, data = run("model_router", tmp_path / "out")
    assert printed == table_of("model_router")
    while_money = "Always, while there is money"
    end = data["request"].max()
    assert gain(data, "lost", over=OURS, of="Never") > 0.0
    means = data.groupby("strategy")["lost"].mean()
    assert 3 * means[OURS] < min(means[while_money], means[EXACT])
    early = data[data["request"] <= 0.1 * end].groupby("strategy")["lost"].mean()
    assert early[OURS] < early[while_money] < early[EXACT]
    late = data[data["request"] > 0.8 * end].groupby("strategy")["lost"].mean()
    assert 2 * late[OURS] < min(late[while_money], late[EXACT])
    last = data[data["request"] == end].set_index(["strategy", "run"])
    assert (last.loc[OURS, "spent"] < 0.8 * last.loc[while_money, "spent"]).all()
    assert (last.loc[EXACT, "spent"] < 0.5 * last.loc[while_money, "spent"]).all()
    paid = last[["paid_small", "paid_medium", "paid_large"]].mul([1.0, 2.0, 4.0]).sum(axis=1)
    assert (paid == last["spent"]).all()  # what was turned away has cost nothing, what was lost has


def test_labelling(quick):
    """The page, on a short run: nothing asked on the first day, far fewer labels, much better than chance."""
    _, data = quick("labelling")
    days = data.set_index(["strategy", "day"])
    exact, always = days.loc[EXACT], days.loc["Always, while there are labels"]
    assert exact.loc[1, "spent"] == 0.0
    assert exact.loc[10, "spent"] < 0.5 * always.loc[10, "spent"]
    assert exact["accuracy"].mean() < always["accuracy"].mean()  # the simple rule is better over all
    assert (data["held"] == 0.0).all() and (data["released"] > 0).all()  # each was shown or released, and some were
    right = round(exact.loc[8:, "accuracy"].sum() * 64)  # of 64 images on each of three days
    assert stats.binom.sf(right - 1, 3 * 64, 1 / 7) < ALARM  # seven classes, none more frequent than the others


def test_frozen_lake(tmp_path):
    """The page: far above the simple rules from fewer than one reward in a hundred; ahead in the first half."""
    printed, data = run("frozen_lake", tmp_path / "out")
    assert printed == table_of("frozen_lake")
    late = data[data["episode"] > 18_000]
    for simple in ("Always, until it is spent", "Greedy"):
        assert gain(late, "wins", over=simple) > 0.0
    early = data[(data["episode"] > 2_000) & (data["episode"] <= 10_000)].groupby("strategy")["wins"].mean()
    assert min(early[EXACT], early[OURS]) > early["every reward, no budget"]
    for rule, share in ((EXACT, 1 / 190), (OURS, 1 / 100)):
        ends = data[(data["strategy"] == rule) & (data["episode"] == 20_000)]
        assert ends["spent"].sum() < share * ends["rewards"].sum()
    squares = pandas.read_parquet(tmp_path / "out" / "squares.parquet")
    ice = squares[squares["square"].isin(["S", "F"])]
    assert (ice["asked"] > 0).all() and (squares["asked"] <= squares["rewards"]).all()
    assert squares["asked"].sum() <= 3_000


def test_the_overview_has_a_card_for_each():
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"(figures/gallery_{name}.png)](gallery/{name}.md)" in text
        assert f"(../figures/gallery_{name}.png)" in page(name)
        assert (ROOT / "docs" / "figures" / f"gallery_{name}.png").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_whole_and_of_the_default_run(name):
    head, rule, *rows = cells(table_of(name))
    assert rule == ["---", *["---:"] * (len(head) - 1)]
    assert len(rows) >= 3 and all(len(row) == len(head) for row in rows)
    source = (ROOT / "examples" / "gallery" / f"{name}.py").read_text(encoding="utf-8")
    rounds, runs = re.findall(r"rounds=([\d_]+), runs=(\d+)", source)[0]
    assert head[0].startswith(f"{int(rounds):,} ") and head[0].endswith(f", {runs} runs, seed 0")


def test_the_marks_of_a_page_are_kept(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "figures"))
    import gallery

    assert gallery.NAMES == NAMES
    for name in NAMES:
        assert gallery.with_table(page(name), table_of(name)) == page(name)
        assert "| new |" in gallery.with_table(page(name), "| new |\n")
        with pytest.raises(ValueError, match="marks"):
            gallery.with_table(page(name).replace("<!-- /table -->", ""), "| new |\n")


def test_a_wrong_option_is_refused(tmp_path):
    command = [sys.executable, ROOT / "examples" / "gallery" / "recommender.py", "--runs", "0", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "--runs" in done.stderr
