"""The guides of the service tell the truth: their commands run, their answers and numbers are those of the service."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import types
import urllib.request
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from benchmarks.capacity import BEGIN, END, put_into
from typer.main import get_command

from sparingly import cli
from sparingly.serve import contract, http_errors, postgres, writer
from sparingly.serve.sqlite import FILE
from sparingly.serve.store import VERSION
from tests.serve.serving import call, serving

ROOT = Path(__file__).parents[2]
GUIDE, NOTES, DEPLOY = ROOT / "docs" / "service.md", ROOT / "docs" / "deployment.md", ROOT / "deploy"
ALERTS = DEPLOY / "alerts.yml"
ADDRESS = "http://127.0.0.1:8000"
AGENT = {"learner": {"type": "UCB1", "ties": "first"}, "actions": ["small", "large"], "contexts": ["code", "chat"],
         "rewards": {"low": 1, "high": 5}}  # fmt: skip


def blocks(path: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a document: their language and their text."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def shell(script: str, url: str, folder: Path) -> str:
    assert shutil.which("curl"), "the commands of the guide need curl"
    command = ["bash", "-euo", "pipefail", "-c", script.replace(ADDRESS, url)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agree(shown: Any, told: Any, where: str = "") -> None:
    """Every field that is shown is there, numbers as far as they are shown; times differ from run to run."""
    if isinstance(shown, dict):
        assert shown.keys() <= told.keys(), where
        for key, value in shown.items():
            if not (key.endswith("_at") and value is not None and told[key] is not None):
                agree(value, told[key], f"{where}.{key}")
    elif isinstance(shown, list):
        assert len(shown) == len(told), where
        for place, pair in enumerate(zip(shown, told, strict=True)):
            agree(*pair, f"{where}[{place}]")
    elif isinstance(shown, Decimal):
        assert round(Decimal(told), -int(shown.as_tuple().exponent)) == shown, where
    else:
        assert shown == told, where


def parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def test_the_commands_of_the_guide_give_the_answers_that_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    module, printed, compared = types.ModuleType("guide"), "", 0
    with serving("--data", str(tmp_path / "data")) as url:
        listed = blocks(GUIDE)
        for (kind, text), (after, shown) in zip(listed, [*listed[1:], ("", "")], strict=True):
            if kind == "sh" and "curl" in text:
                told = shell(text, url, tmp_path)
                if after == "json":
                    agree(parsed(shown), parsed(told))
                    compared += 1
                if '"event_id": "request-1"' in text:
                    assert shell(text, url, tmp_path) == told  # to the last byte
            elif kind == "python":
                exec(compile(text, GUIDE.name, "exec"), module.__dict__)
                printed += capsys.readouterr().out
            elif kind == "text":
                assert text == printed
    assert compared == sum(kind == "json" for kind, _ in listed) and printed


def test_the_commands_of_the_readme_work(tmp_path):
    script = next(text for kind, text in blocks(ROOT / "README.md") if kind == "sh" and text.startswith("curl"))
    with serving("--data", str(tmp_path)) as url:
        told = shell(script.replace("curl", "curl -sf -w '\\n'"), url, tmp_path).splitlines()
    assert [json.loads(line).get("ask", "none") for line in told] == ["none", True, "none"]


def test_numbers_agree_only_as_far_as_they_are_shown():
    agree(parsed('{"a": [1.23]}'), parsed('{"a": [1.2349], "b": 1}'))
    for told in ('{"a": [1.24]}', '{"a": [1.23, 1]}', '{"a": null}', '{"b": 1.23}'):
        with pytest.raises((AssertionError, TypeError)):
            agree(parsed('{"a": [1.23]}'), parsed(told))


def test_the_replay_of_the_guide_knows_every_kind_of_record(tmp_path, monkeypatch):
    """Charges, pauses, leases that end, late answers: the replayed agent is the one in the service, to the last bit."""
    monkeypatch.chdir(tmp_path)
    rule = {"type": "ExactMatching", "explore": "always"}  # leaves something for the charge, tries both actions
    body = {
        **AGENT,
        "rule": rule,
        "budget": {"initial": 30},
        "lease": 0.3,
        "unanswered": {"close_after": 0.3, "late": "learn"},
    }
    with serving("--data", str(tmp_path / "data")) as url:
        agent = f"{url}/v1/agents/router"
        call("PUT", agent, body)
        for n in range(40):
            if n in (10, 14):
                call("POST", f"{agent}/{'pause' if n == 10 else 'resume'}")
            told = call("POST", f"{agent}/decisions", {"event_id": f"e{n}", "context": n % 2, "defer": n % 4 == 0})[1]
            if n % 8 == 0:
                call("POST", f"{agent}/decisions/e{n}/{'activate' if n % 16 == 0 else 'release'}")
            if told["ask"] and n % 3:
                call("POST", f"{agent}/decisions/e{n}/feedback", {"reward": 1 + n % 5})
        assert call("POST", f"{agent}/charges", {"charge_id": "c", "amount": 2.5})[0] == 200
        call("POST", f"{agent}/grants", {"grant_id": "g", "amount": 25})
        while any(call("GET", agent)[1][state] for state in ("open", "held")):
            call("POST", f"{agent}/decisions", {"context": 1})
        call("POST", f"{agent}/decisions/e3/feedback", {"reward": 2})
        (tmp_path / "router.jsonl").write_bytes(urllib.request.urlopen(f"{agent}/log").read())
        now = call("GET", agent)[1]["budget"]
        told = [call("GET", f"{agent}/estimates?context={name}")[1]["estimates"] for name in AGENT["contexts"]]
        (tmp_path / "estimates.json").write_text(json.dumps({"estimates": told[0]}))
    kinds = {json.loads(line)["kind"] for line in (tmp_path / "router.jsonl").read_text().splitlines()}
    assert kinds >= {"charge", "pause", "resume", "activate", "release", "expire", "close", "feedback", "grant"}
    module = types.ModuleType("guide")
    exec(next(text for kind, text in blocks(GUIDE) if kind == "python"), module.__dict__)
    replayed = module.agent
    for context, estimates in enumerate(told):
        for action, estimate in enumerate(estimates):
            assert replayed.asked[context, action] == estimate["asked"]
            assert replayed.answered[context, action] == estimate["answered"]
            assert 1 + 4 * replayed.means[context, action] == estimate["mean"]
    assert (replayed.ledger.spent, replayed.ledger.granted) == (now["spent"] + now["held"], now["granted"])


def test_after_the_restore_of_an_older_copy_the_budget_is_hard_only_with_the_charge(tmp_path):
    body = {**AGENT, "rule": {"type": "Always"}, "budget": {"initial": 10}}

    def asks(url: str, ids: range) -> int:
        told = [call("POST", f"{url}/v1/agents/r/decisions", {"event_id": f"e{n}", "context": 0})[1] for n in ids]
        return sum(decision["ask"] for decision in told)

    def restored(name: str) -> str:
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "copy.sqlite", tmp_path / name / FILE)
        return str(tmp_path / name)

    with serving("--data", str(tmp_path / "data")) as url:
        call("PUT", f"{url}/v1/agents/r", body)
        before = asks(url, range(6))
        with closing(sqlite3.connect(f"{(tmp_path / 'data' / FILE).as_uri()}?mode=ro", uri=True)) as reader:
            reader.execute("VACUUM INTO ?", (str(tmp_path / "copy.sqlite"),))
        missing = asks(url, range(6, 9))  # after the copy
    with serving("--data", restored("careless")) as url:
        assert before + missing + asks(url, range(20, 40)) == 13 > 10  # people were asked more often than allowed
    folder = restored("careful")
    with serving("--data", folder, "--paused"):
        pass  # the pause stays
    with serving("--data", folder) as url:
        assert call("GET", f"{url}/v1/agents/r")[1]["budget"]["left"] == 4.0
        assert asks(url, range(6, 9)) == 0  # retries of what the copy does not know
        assert call("POST", f"{url}/v1/agents/r/charges", {"charge_id": "c", "amount": missing})[0] == 200
        call("POST", f"{url}/v1/agents/r/resume")
        assert before + missing + asks(url, range(20, 40)) == 10


def test_every_problem_has_its_line():
    table = dict(re.findall(r"^\| (\d{3}) \| `([a-z-]+)` \|", GUIDE.read_text(), flags=re.MULTILINE))
    kinds = {str(kind.status): kind.title.lower().replace(" ", "-") for kind in http_errors.HttpError.__subclasses__()}
    assert table == kinds


def test_every_metric_is_listed(tmp_path):
    with serving("--data", str(tmp_path)) as url:
        text = urllib.request.urlopen(f"{url}/metrics").read().decode()
    told = set(re.findall(r"^# TYPE (\S+)", text, flags=re.MULTILINE))
    assert set(re.findall(r"`(sparingly_\w+)`", GUIDE.read_text())) == told
    assert set(re.findall(r"sparingly_\w+", NOTES.read_text())) <= told
    alerts = set(re.findall(r"sparingly_\w+", ALERTS.read_text()))
    assert alerts <= told
    watched = ("storage_ok", "damaged_agents", "refused_total", "load_seconds_total", "snapshot_seconds_total")
    assert {f"sparingly_{name}" for name in (*watched, "clock_ahead", "clock_jumps_total", "forwarded_total")} <= alerts


def test_reasons_statuses_and_limits_are_those_of_the_contract():
    text = GUIDE.read_text()
    assert set(re.findall(r"^\| `(\w+)` \| (?:true|false)", text, flags=re.MULTILINE)) == set(get_args(contract.Reason))
    assert all(f"`{status}`" in text for status in get_args(contract.Status))
    assert contract.LARGEST_BODY == 256 * 1024 and f"256 KiB, {contract.DEEPEST} levels" in text
    assert f"actions | {contract.MOST_ACTIONS:,}; actions × contexts {contract.MOST_CELLS:,}" in text
    assert f"({writer.TIMEOUT:g} seconds)" in text and f"({writer.QUEUE:,})" in text


def test_the_notes_name_the_timeouts_and_the_version_of_the_schema():
    text = NOTES.read_text()
    settings = dict(re.findall(r"SET (\w+_timeout) = '(\d+)s'", "\n".join(postgres.SESSION)))
    settings |= {"connect_timeout": "5", "tcp_user_timeout": "15"}
    assert {name: int(value) for name, value in settings.items()} == {
        name: int(value) for name, value in re.findall(r"`(\w+_timeout)`\s(\d+) s", text)
    }
    assert f"({VERSION} at present)" in text
    assert (postgres.SETTINGS["connect_timeout"], postgres.SETTINGS["tcp_user_timeout"]) == (5, 15_000)


def test_links_to_headings_lead_somewhere():
    for path in (GUIDE, NOTES):
        for file, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", path.read_text()):
            headings = re.findall(r"^#+ (.*)$", (path.parent / (file or path.name)).read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{path.name}: {file}#{anchor}"


def test_the_files_of_the_deployment_use_what_there_is():
    known = {option for parameter in get_command(cli.app).commands["serve"].params for option in parameter.opts}
    unit, image = (DEPLOY / "sparingly.service").read_text(), (DEPLOY / "Containerfile").read_text()
    start = re.search(r"^ExecStart=.* serve (.*)$", unit, flags=re.MULTILINE)[1]
    entry = " ".join(re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", image, flags=re.MULTILINE))
    for used in (start, entry):
        assert {"--data", "--host", "--token-file"} <= set(re.findall(r"--[a-z-]+", used)) <= known
    for line in re.findall(r"^COPY (?!--from)(.*)$", image, flags=re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists() and f"!{name}" in (ROOT / ".dockerignore").read_text().split()


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    unit = (DEPLOY / "sparingly.service").read_text().replace("/opt/sparingly/bin/sparingly", "/bin/true")
    (tmp_path / "sparingly.service").write_text(unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "sparingly.service"], capture_output=True, text=True, timeout=60
    )
    assert "sparingly.service" not in done.stderr and done.returncode == 0, done.stderr


def test_the_table_of_figures_is_put_between_its_comments(tmp_path):
    assert all(NOTES.read_text().count(mark) == 1 for mark in (BEGIN, END))
    path = tmp_path / "notes.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    put_into(path, "new")
    assert path.read_text() == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    path.write_text("nothing here")
    with pytest.raises(SystemExit, match="has no"):
        put_into(path, "new")
