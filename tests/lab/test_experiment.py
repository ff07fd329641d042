"""Experiments in files, the command line, and what they write."""

from __future__ import annotations

import re
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import sparingly as sp
from sparingly.cli import app, main
from sparingly.errors import InvalidInput
from sparingly.lab.demo import experiments
from sparingly.lab.experiment import experiment_from, read_experiment
from sparingly.lab.experiment_results import figure
from sparingly.simulation.progress import Progress

ROOT = Path(__file__).parents[2]
SMALL = {
    "rounds": 500,
    "runs": 3,
    "problem": {"type": "Arms", "means": [0.2, 0.8]},
    "budget": {"type": "Linear", "rate": 0.2},
}


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_experiments_can_be_read(path):
    experiment = read_experiment(path)
    labels = [label for label, _, _ in experiment.policies]
    assert {"Greedy", "PaperMatching", "ExactMatching"} <= set(labels)
    assert isinstance(experiment.problem, sp.problems.Linear) == (path.stem == "half_spaces")
    assert isinstance(experiment.problem, sp.problems.Episodic) == (path.stem == "river_swim")


def test_an_experiment_with_everything():
    experiment = experiment_from(
        {
            "title": "all",
            "rounds": 50,
            "runs": 1,
            "seed": 3,
            "checkpoints": 5,
            "spacing": "linear",
            "problem": {
                "type": "ContextualArms",
                "means": [[0.1, 0.9], [0.5, 0.6]],
                "contexts": {"type": "Iid", "probabilities": [0.9, 0.1]},
                "rewards": {"type": "Beta", "concentration": 3},
                "costs": [1, 2],
            },
            "budget": 20,
            "learners": ["UCB1", {"type": "MOSS", "alpha": 1.0}],
            "rules": ["Always", {"type": "Matching", "alpha": 2.0, "beta": 0.5}],
        },
        title="t",
    )
    assert [label for label, _, _ in experiment.policies] == [
        "UCB1 · Always",
        "UCB1 · Matching(alpha=2.0, beta=0.5)",
        "MOSS(alpha=1.0) · Always",
        "MOSS(alpha=1.0) · Matching(alpha=2.0, beta=0.5)",
    ]
    assert dict(experiment.run())["UCB1 · Always"].rounds.tolist() == [10, 20, 30, 40, 50]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ruls": []}, "unknown key 'ruls'"),
        ({"problem": None}, "problem must be a name or a table"),
        ({"problem": {"type": "Arm"}}, "no type 'Arm'"),
        ({"problem": {"type": "Arms", "mean": [1]}}, "does not take mean"),
        ({"problem": {"type": "Arms"}}, "missing"),
        ({"problem": {"type": "Arms", "means": [2.0]}}, r"lie in \[0, 1\]"),
        ({"problem": {"type": "greedy_trap"}}, "brings its own budget"),
        ({"budget": {"type": "Linear", "rate": -1}}, "rate must be"),
        ({"budget": "much"}, "no type 'much'"),
        ({"rules": []}, "at least one"),
        ({"rules": ["Always", "Always"]}, "same description"),
        ({"rules": ["Sometimes"]}, "no type 'Sometimes'"),
        ({"learners": "UCB1"}, "must be a list"),
        ({"rounds": 1.5}, "rounds must be"),
        ({"runs": True}, "runs must be"),
        ({"spacing": "cubic"}, "spacing must be"),
    ],
)
def test_mistakes_in_an_experiment_are_named(change, message):
    with pytest.raises(sp.InvalidInput, match=message):
        experiment_from(SMALL | change, title="t")


@pytest.mark.parametrize(
    "problem",
    [
        {"type": "Linear", "theta": [0.6, 0.8], "arms": [[1, 0], [0, 1]]},
        {"type": "Linear", "theta": [0.6, 0.8], "arms": {"type": "Rows", "matrix": [[1, 0], [0, 1]], "arms": 3}},
        {"type": "Linear", "theta": [0.6], "arms": {"type": "WhenBudgetGrows", "grows": [[1.0]], "still": [[0.5]]}},
        {"type": "hypercube", "dim": 2, "budget": 9},
    ],
    ids=lambda p: p["type"],
)
def test_linear_experiments(problem):
    data = {"problem": problem, "budget": 9, "rounds": 20, "runs": 1, "learners": [{"type": "OFUL", "length": 2}]}
    results = dict(experiment_from(data, title="t").run())
    assert results["ExactMatching"].refused.sum() == 0


@pytest.mark.parametrize(
    "problem",
    [
        {"type": "Episodic", "P": [[[1.0, 0.0]], [[0.5, 0.5]]], "R": [[0.1], [0.2]], "horizon": 3, "initial": 1},
        {"type": "Episodic", "P": [[[1.0]]], "R": [[0.1]], "horizon": 3, "initial": {"type": "Given", "values": [0]}},
        {"type": "random_mdp", "states": 3, "actions": 2, "horizon": 2, "sparsity": 0.5},
        {"type": "chain", "slip": 0.1},
        {"type": "grid", "rows": 2, "columns": 2},
        {"type": "deep_sea", "size": 3},
        {"type": "episode_trap"},
    ],
    ids=lambda p: p["type"],
)
def test_episodic_experiments(problem):
    data = {"rounds": 40, "runs": 2, "problem": problem, "rules": ["ExactMatching", "BalancedMatching"]}
    if problem["type"] != "episode_trap":
        data["budget"] = 30
    results = dict(experiment_from(data, title="t").run(progress=False))
    assert all(r.regret.shape[0] == 2 and (r.spent <= r.budget).all() for r in results.values())
    assert "UCBVI" in results["ExactMatching"].labels["learner"]


def test_the_studies_of_episodes(tmp_path):
    done = CliRunner().invoke(app, ["episodes", "--quick", "--quiet", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    report = (tmp_path / "report.md").read_text()
    for line in ("S=4 A=2 H=4", "ULCVI", "L_R known", "Regret per 1,000 episodes", "last tenth"):
        assert line in report
    frame = pandas.read_parquet(tmp_path / "results.parquet")
    assert {"regret", "asked", "policy", "experiment"} <= set(frame.columns)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "nan" not in report


def test_missing_parts_are_named():
    with pytest.raises(sp.InvalidInput, match="needs a `problem`"):
        experiment_from({"budget": 1}, title="t")
    with pytest.raises(sp.InvalidInput, match="needs a `budget`"):
        experiment_from({"problem": SMALL["problem"]}, title="t")


def write_toml(path: Path) -> Path:
    problem = '{type = "Arms", means = [0.2, 0.8]}'
    path.write_text(f'rounds = 400\nruns = 3\nbudget = 50\nproblem = {problem}\nrules = ["Always", "Never"]')
    return path


def test_simulate_command(tmp_path):
    file = write_toml(tmp_path / "small.toml")
    result = CliRunner().invoke(app, ["simulate", str(file), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "Always" in result.output
    assert "figure.png" in result.output
    table = pyarrow.parquet.read_table(tmp_path / "out" / "results.parquet").to_pandas()
    assert set(table["policy"]) == {"Always", "Never"}
    last = table[(table["round"] == 400) & (table["policy"] == "Always")]
    assert last["asked"].tolist() == [50, 50, 50]
    assert (tmp_path / "out" / "figure.png").read_bytes()[:4] == b"\x89PNG"
    expected = dict(read_experiment(file).run())["Always"].frame()
    pandas.testing.assert_frame_equal(
        table[table["policy"] == "Always"].drop(columns=["experiment", "policy"]).reset_index(drop=True),
        expected,
        check_dtype=False,
    )


def test_errors_are_one_line(tmp_path, monkeypatch, capsys):
    for content, message in (("rounds = ", "not valid TOML"), ("rounds = 5", "needs a `problem`")):
        (tmp_path / "bad.toml").write_text(content)
        monkeypatch.setattr("sys.argv", ["sparingly", "simulate", str(tmp_path / "bad.toml")])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    monkeypatch.setattr("sys.argv", ["sparingly", "simulate", str(tmp_path / "none.toml")])
    with pytest.raises(SystemExit):
        main()
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        'problem = {type = "Arms", means = [[0.1], [0.2, 0.3]]}',
        'problem = {type = "ContextualArms", means = [[0.1], [0.2]], contexts = {type = "Iid", probabilities = ["a"]}}',
        'problem = {type = "ContextualArms", means = [[0.1], [0.2]], contexts = [[1], [2, 3]]}',
        "rounds = 100000000000000000000000000",
        "runs = 9223372036854775808",
        "budget = 1e400",
    ],
)
def test_no_mistake_in_a_file_leads_to_a_traceback(tmp_path, monkeypatch, capsys, line):
    parts = {"problem": '{type = "Arms", means = [0.2, 0.8]}', "rounds": "10", "runs": "1", "budget": "5"}
    key, _, value = line.partition(" = ")
    (tmp_path / "bad.toml").write_text("\n".join(f"{k} = {v}" for k, v in (parts | {key: value}).items()))
    monkeypatch.setattr("sys.argv", ["sparingly", "simulate", str(tmp_path / "bad.toml"), "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main()
    if stop.value.code:  # an infinite budget is fine
        assert stop.value.code == 2
        assert capsys.readouterr().err.startswith("sparingly: ")


@pytest.mark.parametrize("title", ["[/bold] x", "cost $\\\\foo$ x", "[red]a[/red]"])
def test_titles_are_text(tmp_path, title):
    file = write_toml(tmp_path / "small.toml")
    file.write_text(f'title = "{title}"\n' + file.read_text())
    result = CliRunner().invoke(app, ["simulate", str(file), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert title.replace("\\\\", "\\") in result.output


def test_a_folder_that_cannot_be_written_is_found_out_first(tmp_path, monkeypatch, capsys):
    file = write_toml(tmp_path / "small.toml")
    monkeypatch.setattr("sys.argv", ["sparingly", "simulate", str(file), "--out", str(file)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "Running" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["simulate"], ["demo"], ["episodes"]])
def test_help_has_examples(command):
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    if command:
        assert re.search(rf"sparingly {command[0]} \S+", result.output)


def test_version_command():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == sp.__version__


def test_the_demonstration_shows_what_it_is_for():
    done = {e.title: dict(e.run()) for e in experiments()}
    few, _, adversarial = done.values()
    ours, baseline = "BalancedMatching", "ask until spent, then play the best mean"
    assert adversarial["Greedy"].final_regret()[0] > 100 * adversarial[ours].final_regret()[0]
    assert adversarial[baseline].final_regret()[0] > 100 * adversarial[ours].final_regret()[0]
    assert few["ExactMatching"].final_regret()[0] > 1.5 * few[ours].final_regret()[0]
    guide = re.sub(r"[*`]|, the default", "", (ROOT / "docs" / "choosing.md").read_text())
    for rule in few:  # the guide's table is what `sparingly demo` prints
        ends = ((*results[rule].final_regret(), results[rule].asked[:, -1].mean()) for results in done.values())
        shown = " | ".join("{:,.0f} ± {:,.0f} ({:,.0f})".format(*end) for end in ends)
        assert f"{rule} | {shown} |" in guide
    page = figure(done)
    assert len(page.axes) == 6
    lines = page.axes[0].get_lines()
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 5


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self, live):
        self.live, self.text = live, ""

    def isatty(self):
        return self.live

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.mark.parametrize(("live", "show", "drawn"), [(True, None, True), (False, None, False), (False, True, True)])
def test_progress_after_two_seconds(monkeypatch, live, show, drawn):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = Terminal(live)
    bar = Progress(100, "working", show, stream)
    now[0] = 1.9
    bar.add(10)
    assert stream.text == ""
    now[0] = 2.1
    bar.add(15)
    assert ("25%" in stream.text) == drawn
    assert ("6 s left" in stream.text) == drawn
    bar.close()


def test_a_part_may_be_written_as_a_name_with_parameters():
    """In files as on the command line."""
    text = {"rounds": 10, "problem": {"type": "Arms", "means": [0.6, 0.5]}, "budget": {"type": "Fixed", "amount": 5}}
    made = experiment_from(
        text | {"learners": ["UCB1(scale=0.3)"], "rules": ["Matching(alpha=2, beta=0.4)"]}, "two arms"
    )
    assert made.policies == (("Matching(alpha=2, beta=0.4)", sp.UCB1(2, scale=0.3), sp.Matching(2.0, 0.4)),)
    with pytest.raises(InvalidInput, match="name=value"):
        experiment_from(text | {"learners": ["UCB1(0.3)"]}, "two arms")


def test_quick_and_full_together_are_refused():
    result = CliRunner().invoke(app, ["reproduce", "--quick", "--full"], catch_exceptions=True)
    assert result.exit_code != 0 and isinstance(result.exception, InvalidInput)
