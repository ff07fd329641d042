"""`sparingly reproduce`: claims are data, what is done is kept, and a report is the same however it came about."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas
import pytest
from typer.testing import CliRunner

from sparingly.cli import app
from sparingly.errors import InvalidInput
from sparingly.lab import reproduce as work
from sparingly.lab.claims import CLAIMS, Check, Claim, Evidence, Runner
from sparingly.lab.claims.evidence import claim
from tests.browsing import assert_fits, open_browser, opened

CHEAP = ["corrections/e1", "corrections/e3", "corrections/e6", "corrections/e9", "remarks/rule-of-thumb"]
NAMED = [  # ids that others rely on
    "greedy/adversarial-contexts", "ucb/regret", "oful/budget", "episodic/one-query-per-episode", "profiles/periodic",
]  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    """What a reader of the results sees."""
    return {name: (folder / name).read_bytes() for name in ("report.html", "claims.json")}


def frames(folder: Path) -> list[pandas.DataFrame]:
    return [pandas.read_parquet(folder / name) for name in ("checks.parquet", "curves.parquet")]


def assert_same(first: Path, second: Path) -> None:
    assert files(first) == files(second)
    for a, b in zip(frames(first), frames(second), strict=True):
        pandas.testing.assert_frame_equal(a, b)


@pytest.mark.parametrize("entry", CLAIMS.values(), ids=CLAIMS)
def test_claims_are_data(entry):
    """An id with a group, one line that says it, its source, how it is judged, parameters that fit in both modes."""
    assert entry.id.count("/") == 1 and entry.id == entry.id.lower() and " " not in entry.id
    for text in (entry.statement, entry.source, entry.judged):
        assert text and "\n" not in text
    assert entry.statement.endswith(".")
    wanted = set(inspect.signature(entry.run).parameters) - {"runner"}
    assert set(entry.quick) == wanted == set(entry.full)
    json.dumps(entry.parameters("quick"))


def test_the_claims_asked_for_are_there():
    assert set(NAMED) <= set(CLAIMS)
    groups = {entry.group for entry in CLAIMS.values()}
    assert {
        "lower",
        "greedy",
        "ucb",
        "oful",
        "ucbvi",
        "ulcvi",
        "episodic",
        "profiles",
        "remarks",
        "corrections",
    } <= groups
    assert {f"corrections/e{k}" for k in (1, 2, 3, 4, 5, 6, 8, 9, 10)} | {"ucbvi/budget"} <= set(CLAIMS)


def test_an_id_is_given_once():
    with pytest.raises(InvalidInput, match="two claims have the id"):
        claim("ucb/regret", "", source="", judged="", quick={}, full={})(lambda runner: Evidence(()))


def test_claims_are_chosen_by_id_or_group():
    assert len(work.choose([])) == len(CLAIMS)
    assert [c.id for c in work.choose(["ucb/rate", "ucb/regret"])] == ["ucb/regret", "ucb/rate"]  # in their own order
    assert {c.group for c in work.choose(["ucb", "oful/rate"])} == {"ucb", "oful"}
    with pytest.raises(InvalidInput, match="did you mean ucb/regret"):
        work.choose(["ucb/regrets"])


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """The cheap claims, run once."""
    folder = tmp_path_factory.mktemp("done")
    work.reproduce(work.choose(CHEAP), folder, jobs=2)
    return folder


def test_twice_and_on_one_core_or_two_it_is_the_same(done, tmp_path):
    work.reproduce(work.choose(CHEAP), tmp_path, jobs=1)
    assert_same(done, tmp_path)


def test_what_is_done_is_kept(done, monkeypatch):
    monkeypatch.setattr(Claim, "evaluate", lambda *_: pytest.fail("run again"))
    told = []
    before = files(done)
    work.reproduce(
        work.choose(CHEAP),
        done,
        callbacks=work.ProgressCallbacks(finished=lambda record, took: told.append((record.id, took))),
    )
    assert sorted(told) == sorted((name, 0.0) for name in CHEAP)
    assert files(done) == before


def test_another_mode_seed_or_code_is_run_anew(tmp_path, monkeypatch):
    store = work.ClaimStore(tmp_path, "quick", 0)
    entry = CLAIMS["corrections/e9"]
    store.keep(entry, work.run_claim(entry, Runner()))
    assert store.find(entry) is not None
    assert work.ClaimStore(tmp_path, "full", 0).find(entry) is None
    assert work.ClaimStore(tmp_path, "quick", 1).find(entry) is None
    monkeypatch.setattr(work, "code_digest", lambda: "other")
    assert store.find(entry) is None


@pytest.mark.parametrize("damage", ["", "{", '{"fingerprint": 1}', "null", "[]"])
def test_a_damaged_file_is_run_anew(tmp_path, damage):
    store = work.ClaimStore(tmp_path, "quick", 0)
    entry = CLAIMS["corrections/e9"]
    store.keep(entry, work.run_claim(entry, Runner()))
    store.path(entry).write_text(damage)
    assert store.find(entry) is None


def test_killed_in_the_middle_it_goes_on_and_ends_the_same(done, tmp_path):
    command = [sys.executable, "-m", "sparingly.cli", "reproduce", *CHEAP, "--out", str(tmp_path), "--jobs", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept = tmp_path / "claims" / "quick-0"

    def count() -> int:
        return len(list(kept.glob("[!.]*.json")))  # a name with a dot in front is a draft: not kept yet

    deadline = time.monotonic() + 120
    while count() == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 1 <= count() < len(CHEAP)
    assert not (tmp_path / "report.html").exists()
    again = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "100"}, check=True)
    assert "kept from before" in again.stdout
    assert_same(done, tmp_path)


def test_data_and_report_agree(done):
    checks, curves = frames(done)
    records = json.loads((done / "claims.json").read_text())
    assert checks["claim"].unique().tolist() == [name for name in CLAIMS if name in CHEAP] == [r["id"] for r in records]
    assert len(checks) == sum(len(r["evidence"]["checks"]) for r in records)
    assert len(curves) == sum(len(c["x"]) for r in records for p in r["evidence"]["panels"] for c in p["curves"])
    html = (done / "report.html").read_text()
    for record in records:
        assert record["verdict"] in html and record["id"] in html


def test_the_report_names_the_command_that_makes_it(done):
    html = (done / "report.html").read_text()
    named = [name for name in CLAIMS if name in CHEAP]
    assert f"sparingly reproduce {' '.join(named)} --quick --seed 0" in html
    everything = list(CLAIMS)
    assert work.about("full", 3, everything)["command"] == "sparingly reproduce --full --seed 3"
    group = [name for name in CLAIMS if name.startswith("ucb/")]
    assert work.shortest([*group, "oful/rate"]) == ["ucb", "oful/rate"]
    for ids in ([*group, "oful/rate"], named, everything):
        assert [entry.id for entry in work.choose(work.shortest(ids))] == [name for name in CLAIMS if name in ids]


def test_regret_figures_name_runs_intervals_and_seeds():
    """What the axis says is what the curves are: a band for everything measured, of as many runs as were made."""
    smaller = {
        "lower/linear": {"rounds": 100, "runs": 3},
        "greedy/adversarial-contexts": {"rounds": 2_000, "runs": 30},
        "profiles/fixed": {"horizons": (500, 1_000), "rounds": 1_000, "budgets": (50, 100), "runs": 30},
        "remarks/budget-after-action": {"rounds": 50, "runs": 3},
        "corrections/e10": {},
        "ours/exact-linear": {"rounds": 100, "runs": 30, "horizon": 100, "repeats": 120},
    }
    named = re.compile(r"mean, and 10–90 % of [\d,]+( to [\d,]+)? runs$|mean of [\d,]+ runs, and its interval$")
    seen = 0
    for name, parameters in smaller.items():
        evidence = CLAIMS[name].run(Runner(), **{**CLAIMS[name].quick, **parameters})
        for panel in evidence.panels:
            if not re.search("regret|estimate", panel.y_label):
                continue
            assert panel.chance and named.search(panel.y_label), panel
            for curve in panel.curves:
                if curve.role == "measured":
                    seen += 1
                    assert len(curve.low) == len(curve.high) == len(curve.x), curve.label
                    inside = [low <= y <= high for low, y, high in zip(curve.low, curve.y, curve.high, strict=True)]
                    assert all(inside) or "interval" not in panel.y_label
    assert seen > 20


def test_a_claim_that_breaks_does_not_stop_the_others(tmp_path, monkeypatch):
    def boom(runner: Runner) -> Evidence:
        raise MemoryError("too much")

    monkeypatch.setitem(CLAIMS, "zz/broken", Claim("zz/broken", "It runs.", "here", "by hand", boom, {}, {}))
    records = work.reproduce(work.choose(["zz/broken", "corrections/e9"]), tmp_path)
    assert {r.id: r.verdict for r in records} == {"corrections/e9": "holds as corrected", "zz/broken": "fails"}
    assert "MemoryError: too much" in (tmp_path / "report.html").read_text()
    assert not (tmp_path / "claims" / "quick-0" / "zz.broken.json").exists()  # next time it is tried again


def test_the_command_line(tmp_path, monkeypatch):
    run = CliRunner()
    result = run.invoke(app, ["reproduce", "corrections/e9", "corrections/e3", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "[2/2]" in result.output and "holds as corrected" in result.output
    assert str(tmp_path / "report.html") in result.output.replace("\n", "")
    listed = run.invoke(app, ["claims"], env={"COLUMNS": "200"})
    assert all(name in listed.output for name in CLAIMS)
    shown = run.invoke(app, ["reproduce", "--help"], env={"COLUMNS": "200"})
    assert "--quick" in shown.output and "--full" in shown.output and "sparingly reproduce" in shown.output

    def never(runner: Runner) -> Evidence:
        return Evidence((Check("it is", 2.0, "≤", 1.0, 2.0, 2.0, "refuted", "exact"),))

    monkeypatch.setitem(CLAIMS, "zz/wrong", Claim("zz/wrong", "It is.", "here", "by hand", never, {}, {}))
    failed = run.invoke(app, ["reproduce", "zz/wrong", "--out", str(tmp_path)])
    assert failed.exit_code == 1 and "zz/wrong fails: it is" in failed.output
    other = run.invoke(app, ["reproduce", "corrections/e9", "--out", str(tmp_path)])
    assert other.exit_code == 0  # what was not asked for does not count
    huge = run.invoke(app, ["reproduce", "corrections/e9", "--seed", str(2**70), "--out", str(tmp_path)])
    assert huge.exit_code == 2


def hear_interrupts():
    """What is started in the background of a shell does not hear them otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_stopped_by_hand_it_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "sparingly.cli", "reproduce", "ucb/rate", "--full", "--out", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=hear_interrupts
    )
    while not (tmp_path / "claims").exists():
        time.sleep(0.01)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in output.replace("\n", " ")


def test_the_documents_list_the_claims():
    """docs/claims.md comes from a full run; here it must at least speak of the claims as they are."""
    root = Path(__file__).parents[2]
    text = (root / "docs" / "claims.md").read_text(encoding="utf-8")
    for entry in CLAIMS.values():
        assert f"`{entry.id}`" in text, entry.id
        assert entry.statement.replace("|", "\\|") in text, entry.id
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert f"the {len(CLAIMS)} claims" in readme
    counts = re.findall(r"\*\*(\d+ claims: [^*]*)\.\*\*", text)
    assert re.findall("<!-- counts -->(.*?)<!-- /counts -->", readme, re.DOTALL) == counts and len(counts) == 1
    numbers = [int(number) for number in re.findall(r"\d+", counts[0])]
    assert numbers[0] == sum(numbers[1:]) == len(CLAIMS)
    for count, word in re.findall(r"(\d+) (hold as corrected|hold|fail)\b", counts[0]):
        verdict = {"hold": "holds", "hold as corrected": "holds as corrected", "fail": "fails"}[word]
        assert len(re.findall(rf"\| {verdict} \|$", text, re.MULTILINE)) == int(count)


def test_a_real_report_in_a_real_browser(done):
    """Desktop and phone, light and dark: nothing sticks out, no figure is broken, nothing complains."""
    with open_browser() as browser:
        for width, scheme in itertools.product((1280, 360), ("light", "dark")):
            with opened(browser, done / "report.html", width, scheme) as page:
                assert_fits(page)
