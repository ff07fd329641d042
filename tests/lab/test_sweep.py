"""Sweeps: grids as cells, the same bytes on every back end and after every accident, failures that stay alone.

The command runs as processes of its own here, some of them told to get into trouble at a certain point.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import sparingly as sp
from sparingly.errors import InvalidInput, SparinglyError
from sparingly.lab import backends
from sparingly.lab.reproduce import code_digest
from sparingly.lab.sweep import CellStore, SeedGroup, figure, run_sweep, tables, write_results
from sparingly.lab.sweep_grid import Attempt, read_sweep, run_cell, sweep_from

ROOT = Path(__file__).parents[2]
PATIENCE = 300  # seconds: far more than anything here takes, so that a busy machine fails no test
TWO_HUNDRED = ROOT / "experiments" / "sweeps" / "two_hundred.toml"
SMALL = """
rounds = 200
runs = 1
seeds = 3
budget = 50
rules = ["Greedy", "ExactMatching"]
problem = { type = "Arms", means = [0.4, 0.6] }
"""

# The command, with cells that note that they are run, and get into trouble. Sent to workers by value.
TROUBLE = """
import sys
from functools import partial
from sparingly import cli
from sparingly.lab import sweep
from sparingly.lab.sweep_grid import run_cell

def troubled(kind, notes, cells):
    def run(description):
        import os, signal, time
        from pathlib import Path
        with open(Path(notes) / "runs", "a") as log:
            log.write(f"{description['rules'][0]['type']} {description['seed']}\\n")
        begun = len((Path(notes) / "runs").read_text().splitlines())
        chosen = description["rules"] == [{"type": "Greedy"}] and description["seed"] == 1
        kept = lambda: [path.name for path in Path(cells).glob("[!.]*.parquet")]
        if kind == "kill one worker" and begun >= 100:
            while len(kept()) < 20:  # whoever is slow, some cells are kept before the accident
                time.sleep(0.01)
            try:
                with open(Path(notes) / "killed", "x") as note:
                    note.write(" ".join(f"{name}={(Path(cells) / name).stat().st_mtime_ns}" for name in kept()))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        if kind == "stall" and begun >= 100:
            time.sleep(600)
        if kind == "kill each worker" and chosen:
            os.kill(os.getpid(), signal.SIGKILL)
        if chosen and (kind == "raise" or kind == "raise once" and "failed" not in os.listdir(notes)):
            (Path(notes) / "failed").touch()
            raise ValueError("no luck today")
        return run_cell(description)
    return run

if __name__ == "__main__":
    kind, notes, out = sys.argv[1:4]
    sweep.run_sweep = partial(sweep.run_sweep, run=troubled(kind, notes, out + "/cells"))
    sys.argv = ["sparingly", "sweep", *sys.argv[4:], "--out", out]
    cli.main()
"""


def command(*words: object, code: int = 0, env: Mapping[str, str] | None = None) -> str:
    """What `sparingly sweep` says, on both channels."""
    done = subprocess.run(
        [sys.executable, "-m", "sparingly.cli", "sweep", *map(str, words)], capture_output=True, text=True, env=env,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def in_trouble(kind: str, folder: Path, *words: object) -> subprocess.Popen[str]:
    """The same command, getting into trouble; its results go to folder/out, notes on its runs to folder."""
    script = folder / "trouble.py"
    script.write_text(TROUBLE)
    return subprocess.Popen(
        [sys.executable, str(script), kind, str(folder), str(folder / "out"), *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def runs(folder: Path) -> list[str]:
    return (folder / "runs").read_text().splitlines()


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> bytes:
    """The result of two hundred cells, run one after the other."""
    out = tmp_path_factory.mktemp("expected")
    command(TWO_HUNDRED, "--jobs", 1, "--out", out)
    assert len(list((out / "cells").iterdir())) == 200
    return (out / "results.parquet").read_bytes()


@pytest.fixture
def small(tmp_path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


# The same bytes everywhere


@pytest.mark.parametrize("on", ["local", "dask", "ray"])
def test_two_workers_give_the_same_bytes_everywhere(on, tmp_path, expected):
    said = command(TWO_HUNDRED, "--on", on, "--jobs", 2, "--out", tmp_path / "out")
    assert "200/200 cells done, 0 failed" in said
    assert (tmp_path / "out" / "results.parquet").read_bytes() == expected
    assert (tmp_path / "out" / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("on", ["local", "dask", "ray"])
def test_a_killed_worker_changes_nothing(on, tmp_path, expected):
    work = in_trouble("kill one worker", tmp_path, TWO_HUNDRED, "--on", on, "--jobs", 2)
    said, _ = work.communicate(timeout=PATIENCE)
    assert work.returncode == 0, said
    assert len(runs(tmp_path)) > 200  # the cell that was under way, at least, was run again
    before = dict(pair.split("=") for pair in (tmp_path / "killed").read_text().split())
    assert len(before) >= 20  # and those that were done before were not
    assert {name: str((tmp_path / "out" / "cells" / name).stat().st_mtime_ns) for name in before} == before
    assert (tmp_path / "out" / "results.parquet").read_bytes() == expected


def test_the_command_goes_on_after_it_was_killed(tmp_path, expected):
    work = in_trouble("stall", tmp_path, TWO_HUNDRED, "--jobs", 2)
    cells = tmp_path / "out" / "cells"
    deadline = time.monotonic() + PATIENCE
    while len(list(cells.glob("[!.]*.parquet"))) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(work.pid, signal.SIGKILL)
    work.communicate(timeout=PATIENCE)
    before = {path: path.stat().st_mtime_ns for path in cells.glob("[!.]*.parquet")}  # drafts begin with a dot
    assert 20 <= len(before) < 200
    assert not (tmp_path / "out" / "results.parquet").exists()
    said = command(TWO_HUNDRED, "--jobs", 2, "--out", tmp_path / "out")
    assert f"{len(before)} of 200 cells were done before" in said
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (tmp_path / "out" / "results.parquet").read_bytes() == expected


def test_a_cluster_that_is_up_is_used_and_left_up(tmp_path, expected):
    script = tmp_path / "cluster.py"
    script.write_text(
        "import sys\nfrom distributed import LocalCluster\nif __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=2, threads_per_worker=1, host='127.0.0.1', dashboard_address=None) as c:\n"
        "        print(c.scheduler_address, flush=True)\n        sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as cluster:
        address = cluster.stdout.readline().strip()
        command(TWO_HUNDRED, "--on", "dask", "--address", address, "--out", tmp_path / "out")
        assert cluster.poll() is None
        cluster.stdin.close()
    assert (tmp_path / "out" / "results.parquet").read_bytes() == expected


@pytest.fixture(scope="module")
def ray_head():
    """A ray cluster of its own that wants a token: its address, and the environment of somebody who has the token."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder, socket.socket() as probe:  # short: sockets lie there
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        (Path(folder) / "token").write_text("0123456789abcdef" * 4)
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "HOME": folder}
        mine = quiet | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": f"{folder}/token"}
        words = ["start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={address.split(':')[1]}"]
        words += ["--num-cpus=2", "--include-dashboard=false", f"--temp-dir={folder}/ray"]
        code = "from ray.scripts.scripts import main; main()"
        head = subprocess.Popen(
            [sys.executable, "-c", code, *words], env=os.environ | mine, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            said = ""
            for line in head.stdout:
                said += line
                if "block forever" in line:
                    break
            assert head.poll() is None, said
            yield address, os.environ | mine
        finally:
            os.killpg(head.pid, signal.SIGKILL)
            head.communicate(timeout=PATIENCE)  # until the last of its processes has closed the channel


def test_a_ray_cluster_that_is_up_is_used_and_left_up(tmp_path, small, ray_head):
    address, mine = ray_head
    for name in ("one", "two"):
        command(small, "--on", "ray", "--address", address, "--out", tmp_path / name, env=mine)
    command(small, "--jobs", 1, "--out", tmp_path / "here")
    results = {(tmp_path / name / "results.parquet").read_bytes() for name in ("one", "two", "here")}
    assert len(results) == 1


@pytest.mark.parametrize("mode", [None, "token"])
def test_a_token_that_is_missing_is_told(mode, tmp_path, small, ray_head):
    address, mine = ray_head
    poor = {name: value for name, value in mine.items() if not name.startswith("RAY_AUTH")}
    poor |= {"RAY_AUTH_MODE": mode} if mode else {}
    poor |= {"RAY_NUM_REDIS_GET_RETRIES": "3"}  # it need not be patient here
    said = command(small, "--on", "ray", "--address", address, "--out", tmp_path / "out", code=2, env=poor)
    assert said.startswith(f"sparingly: the ray cluster at {address} wants its token: set RAY_AUTH_MODE=token")
    assert len(said.splitlines()) == 1 and not (tmp_path / "out").exists()


# Failures stay alone


def test_an_exception_is_isolated_retried_and_reported(tmp_path, small):
    work = in_trouble("raise", tmp_path, small, "--jobs", 2, "--retries", 2)
    said, _ = work.communicate(timeout=PATIENCE)
    assert work.returncode == 1
    assert "5/6 cells done, 1 failed" in said and "ValueError: no luck today" in said
    (trouble,) = (tmp_path / "out" / "failures").iterdir()
    assert "Traceback" in trouble.read_text() and '"seed": 1' in trouble.read_text()
    assert sorted(runs(tmp_path)).count("Greedy 1") == 3 and len(runs(tmp_path)) == 8
    seen = pyarrow.parquet.read_table(tmp_path / "out" / "results.parquet").to_pandas()
    assert len(seen) == 5 and not ((seen["rule"] == "Greedy") & (seen["seed"] == 1)).any()
    command(small, "--jobs", 1, "--out", tmp_path / "out")  # what failed is not kept: it is run again
    assert not list((tmp_path / "out" / "failures").iterdir())


def test_a_second_try_can_succeed(tmp_path, small):
    work = in_trouble("raise once", tmp_path, small, "--jobs", 2, "--retries", 1)
    said, _ = work.communicate(timeout=PATIENCE)
    assert work.returncode == 0, said
    assert len(runs(tmp_path)) == 7


def test_a_cell_that_kills_its_worker_is_found(tmp_path, small):
    work = in_trouble("kill each worker", tmp_path, small, "--jobs", 2, "--retries", 0)
    said, _ = work.communicate(timeout=PATIENCE)
    assert work.returncode == 1
    assert "5/6 cells done, 1 failed" in said and "the worker process died" in said


def test_workers_that_die_before_they_begin_end_the_sweep(tmp_path):
    class Dying(backends.Backend):
        def each(self, call, items, apart=False):
            raise backends.WorkerDied("no luck today")

    sweep = sweep_from(tomllib.loads(SMALL), "", "")
    with pytest.raises(SparinglyError, match="workers die before they begin"):
        run_sweep(sweep, tmp_path, Dying("none", 1, ()))


def test_few_runs_have_a_wide_interval():
    group = SeedGroup(sweep_from(tomllib.loads(SMALL), "", "").cells[0], regret=[1.0, 2.0, 3.0])
    assert group.interval() == (2.0, pytest.approx(4.3027 / np.sqrt(3), rel=1e-4))  # Student's t, two degrees


def test_a_damaged_cell_is_run_again(tmp_path, small):
    command(small, "--jobs", 1, "--out", tmp_path / "out")
    result = tmp_path / "out" / "results.parquet"
    good = result.read_bytes()
    cut, flipped, *_ = sorted((tmp_path / "out" / "cells").iterdir())
    cut.write_bytes(cut.read_bytes()[:-20])
    damaged = bytearray(flipped.read_bytes())
    damaged[60] ^= 1  # within the data: only a checksum tells
    flipped.write_bytes(damaged)
    assert "4 of 6 cells were done before" in command(small, "--jobs", 1, "--out", tmp_path / "out")
    assert result.read_bytes() == good


def test_a_worker_with_other_code_refuses():
    cell = sweep_from(tomllib.loads(SMALL), "", code_digest()).cells[0]
    assert Attempt(run_cell, code_digest())(cell).columns is not None
    assert "another version" in Attempt(run_cell, "other code")(cell).error


# What a grid is


def test_a_list_in_place_of_a_value_is_a_grid():
    text = """
    rounds = [100, 200]
    seeds = [7, 9]
    budget = [10, { type = "Linear", rate = [0.1, 0.2] }]
    rules = ["Never", { name = "wide", type = "Matching", alpha = [1.0, 2.0], beta = [0.5, 0.6] }]
    problem = [{ type = "Arms", means = [0.1, 0.2], rewards = ["fixed", { type = "Beta", concentration = [5, 9] }] }]
    """
    sweep = sweep_from(tomllib.loads(text), "a title", "code")
    assert sweep.title == "a title" and len(sweep.cells) == 2 * 2 * 3 * 5 * 3
    assert [cell.id for cell in sweep.cells] == sorted({cell.id for cell in sweep.cells})
    assert {cell.labels["rule"] for cell in sweep.cells} >= {"Never", "wide(alpha=1.0, beta=0.6)"}
    assert {cell.labels["schedule"] for cell in sweep.cells} == {"10", "Linear(rate=0.1)", "Linear(rate=0.2)"}
    assert all(cell.description["problem"]["means"] == [0.1, 0.2] for cell in sweep.cells)  # one value, not a grid
    assert {cell.taken.get("rule.alpha") for cell in sweep.cells} == {None, 1.0, 2.0}


def test_ids_depend_on_what_results_depend_on_and_on_nothing_else():
    def ids(text: str, digest: str = "code") -> set[str]:
        return {cell.id for cell in sweep_from(tomllib.loads(text), "", digest).cells}

    base = ids(SMALL)
    assert ids('title = "other"' + SMALL) == base
    assert ids(SMALL.replace("means = [0.4, 0.6] }", 'means = [0.4, 0.6], name = "easy" }')) == base
    assert ids(SMALL.replace("seeds = 3", "seeds = 5")) > base  # what is done stays done when the grid grows
    for old, new in (("rounds = 200", "rounds = 201"), ("0.6]", "0.7]"), ("budget = 50", "budget = 51")):
        assert not ids(SMALL.replace(old, new)) & base
    assert not ids(SMALL, "other code") & base


def test_an_experiment_is_a_sweep_with_the_same_result(tmp_path):
    text = SMALL.replace("seeds = 3", "seed = 5").replace("runs = 1", "runs = 4")
    for cell in sweep_from(tomllib.loads(text), "", "").cells:
        rule = {"Greedy": sp.Greedy(), "ExactMatching": sp.ExactMatching()}[cell.labels["rule"]]
        r = sp.simulate(sp.problems.Arms([0.4, 0.6]), sp.UCB1(arms=2), rule, 50, rounds=200, runs=4, seed=5)
        np.testing.assert_array_equal(run_cell(cell.description)["regret"], r.regret[:, -1])


def test_problems_with_a_budget_of_their_own_stand_beside_others():
    text = 'budget = [10, 20]\nproblem = ["greedy_trap", { type = "Arms", means = [0.1, 0.2] }]\nrules = ["Never"]'
    cells = sweep_from(tomllib.loads(text), "", "").cells
    schedules = sorted(cell.labels["schedule"] for cell in cells)
    assert schedules == ["10", "20", "the problem's"]


def test_columns_tables_and_figure(tmp_path):
    text = SMALL.replace("budget = 50", 'budget = [20, 40, { type = "Linear", rate = 0.5 }]')
    sweep = sweep_from(tomllib.loads(text), "", "")
    store = CellStore(tmp_path)
    store.prepare()
    for cell in sweep.cells:
        store.keep(cell, run_cell(cell.description))
    groups = write_results(tmp_path / "results.parquet", sweep.cells, store)
    frame = pyarrow.parquet.read_table(tmp_path / "results.parquet").to_pandas()
    assert list(frame["cell"]) == sorted(frame["cell"]) and len(frame) == 18
    assert sorted(frame["budget.amount"].dropna().unique()) == [20, 40]
    mine = frame[(frame["rule"] == "Greedy") & (frame["schedule"] == "20")]
    first = next(g for g in groups if g.cell.labels["rule"] == "Greedy" and g.cell.labels["schedule"] == "20")
    assert first.interval()[0] == pytest.approx(mine["regret"].mean())
    assert len(groups) == 6 and [g.cell.labels["schedule"] for g in groups][:2] == ["20", "20"]
    (view,) = tables("title", groups)
    assert view.row_count == 6
    (axis,) = [a for a in figure("title", groups).axes if a.get_visible()]
    assert axis.get_xlabel() == "budget.amount"
    assert [t.get_text() for t in axis.get_legend().get_texts()] == ["Greedy", "ExactMatching"]


# Mistakes are told before anything is run


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("runs = 1", "runs = 1\nspeed = 3", "unknown key 'speed'"),
        ('"Greedy"', '"Greedily"', "no type 'Greedily'"),
        ('type = "Arms"', 'type = "Legs"', "no type 'Legs'"),
        ("means =", "means = [0.4, 0.6], mean =", "does not take mean"),
        ('["Greedy", "ExactMatching"]', "[]", "rule is an empty list"),
        ("seeds = 3", "seeds = []", "seed is an empty list"),
        ("seeds = 3", "seeds = 0", "seeds must be a whole number ≥ 1"),
        ("seeds = 3", "seeds = [1, 2, 1]", "seed has 1 twice"),
        ("seeds = 3", "seeds = 3\nseed = 1", "`seed` and `seeds` are the same"),
        ("seeds = 3", "seeds = 3\nbudgets = 1", "`budget` and `budgets` are the same"),
        ("seeds = 3", 'seeds = ["one"]', "seed must be a whole number"),
        ("rounds = 200", 'rounds = [200, "many"]', "rounds must be a whole number"),
        ("rounds = 200", "rounds = [200, 0]", "rounds must be a whole number"),
        ("budget = 50", "budget = [50, true]", "budget must be a name or a table"),
        ("budget = 50", 'budget = { type = "Linear", rate = [] }', "budget.rate is an empty list"),
        ("budget = 50", 'budget = { type = "Linear", rate = [0.1, "fast"] }', "budget Linear"),
        ("budget = 50", "", "needs a `budget`"),
        ('"ExactMatching"', '"Greedy"', "two rules are called 'Greedy'"),
        ('"ExactMatching"', '{ name = "Greedy", type = "Always" }', "two rules are called 'Greedy'"),
        ('"ExactMatching"', '{ name = "other", type = "Greedy" }', "two cells are the same"),
        ('"ExactMatching"', '{ name = 3, type = "Always" }', "name of a rule must be a text"),
        ("seeds = 3", 'seeds = 3\nlearners = ["OFUL"]', "OFUL"),
        ('problem = { type = "Arms", means = [0.4, 0.6] }', "", "needs a `problem`"),
        ('{ type = "Arms", means = [0.4, 0.6] }', '"greedy_trap"', "brings its own budget"),
        ("seeds = 3", "seeds = 900_000", "more than a sweep may have"),
        ("seeds = 3", "seeds = = 3", "not valid TOML"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_named(old, new, says, tmp_path):
    assert old in SMALL
    path = tmp_path / "wrong.toml"
    path.write_text(SMALL.replace(old, new))
    with pytest.raises(InvalidInput) as caught:
        read_sweep(path, "")
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.fixture
def port():
    """A port that nobody listens on, and that nobody else can get meanwhile."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield int(probe.getsockname()[1])


def test_somebody_else_at_the_address_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(backends, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InvalidInput, match="nobody answers"), backends.open_backend("dask", address):
            pytest.fail("opened")


@pytest.mark.parametrize(
    ("on", "address", "jobs", "says"),
    [
        ("dask", "tcp://127.0.0.1:{port}", None, "nobody answers at tcp://127.0.0.1:"),
        ("ray", "127.0.0.1:{port}", None, "nobody answers at 127.0.0.1:"),
        ("dask", "somewhere", None, "--address must be like"),
        ("ray", "127.0.0.1:99999", None, "nobody answers"),
        ("local", "tcp://127.0.0.1:{port}", None, "give --on dask or --on ray"),
        ("dask", "tcp://127.0.0.1:{port}", 2, "--jobs is for workers started here"),
    ],
)
def test_a_cluster_that_cannot_be_is_named(on, address, jobs, says, port):
    with pytest.raises(InvalidInput) as caught, backends.open_backend(on, address.format(port=port), jobs):
        pytest.fail("opened")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_mistake_is_one_line_and_leaves_nothing_behind(small):
    said = command(small, "--out", small.parent / "out", "--on", "moon", code=2)
    assert said == "sparingly: --on must be 'local' or 'dask' or 'ray', not 'moon'\n"
    assert not (small.parent / "out").exists()


@pytest.mark.parametrize(
    ("package", "on", "extra"), [("joblib", "local", "lab"), ("distributed", "dask", "dask"), ("ray", "ray", "ray")]
)
def test_a_missing_package_is_named(package, on, extra, small):
    words = ["sparingly", "sweep", str(small), "--on", on, "--out", str(small.parent / "out")]
    code = f"import sys; sys.modules[{package!r}] = None; sys.argv = {words!r}; from sparingly.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert re.search(rf"pip install .*\[{extra}\]'", done.stderr) and len(done.stderr.splitlines()) == 1
    assert not (small.parent / "out").exists()


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "sweeps").glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_sweeps_can_be_read(path):
    sweep = read_sweep(path, "")
    assert len(sweep.cells) == {"budgets": 160, "two_hundred": 200}[path.stem]
    assert json.dumps(sweep.cells[0].description)
