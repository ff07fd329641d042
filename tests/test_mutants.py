"""The mutants: each finds its place and names what exists; a run tells those that are killed from those that live."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.mutants import report, running
from tests.mutants.__main__ import options
from tests.mutants.catalogue import MUTANTS, PARTS
from tests.mutants.claims import noticed
from tests.mutants.mutant import CONSTANT, KINDS, Mutant
from tests.mutants.running import Case, Ended, Outcome, Workshop, judged_by_tests

ROOT = Path(__file__).parent.parent
HELD = Ended(0, "", 1.0, False)
FAILED = Ended(1, "", 1.0, False)
DEAD = Mutant(
    "dead", "ledger", "ledger.py", "account[0].spent + cost <=", "account[0].spent <=", "charged after the fact",
    ("test_ledger.py::test_free_asks_need_no_budget",),
)  # fmt: skip
ALIVE = Mutant(
    "alive", "ledger", "ledger.py", "account[0].spent + cost <=", "account[0].spent + cost + 0 <=", "nothing",
    ("test_ledger.py::test_free_asks_need_no_budget",),
)  # fmt: skip


def test_there_are_mutants_of_every_kind():
    assert len(MUTANTS) == sum(len(part.MUTANTS) for part in PARTS) >= 80  # no id stands for two
    assert set(Counter(mutant.kind for mutant in MUTANTS.values())) == set(KINDS)
    assert all(mutant.claims for mutant in MUTANTS.values() if mutant.kind == CONSTANT)
    assert all(mutant.tests and mutant.says for mutant in MUTANTS.values())


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_finds_its_place(mutant):
    """If this fails after an edit, give the mutant the new text of its line."""
    text = (ROOT / "src" / "sparingly" / mutant.file).read_text(encoding="utf-8")
    changed = mutant.changed(text)
    compile(changed, mutant.file, "exec")
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))  # not only a comment


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_tests_and_claims_that_they_name_exist():
    for mutant in MUTANTS.values():
        assert running.unknown_claims(mutant) == [], mutant.id
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert name.partition("[")[0] in functions(file), f"{mutant.id} names {test}"


def test_one_is_killed_and_one_that_changes_nothing_lives(tmp_path, monkeypatch):
    shop = Workshop(tmp_path)
    assert list(shop.check_tests([DEAD, ALIVE])) == ["test_ledger.py: 1 tests as plain Python"]
    dead, alive = (shop.judge(mutant, ["tests"])["tests"] for mutant in (DEAD, ALIVE))
    assert (dead.state, dead.by) == ("killed", DEAD.tests[0]) and "assert" in dead.how
    assert (alive.state, alive.by) == ("survived", "")
    monkeypatch.setattr(running, "run", None)  # from now on nothing can run: what is kept must do
    assert shop.judge(DEAD, ["tests"])["tests"] == dead
    assert list(shop.check_tests([DEAD, ALIVE])) == []


def test_a_control_that_fails_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "run_tests", lambda *_: ([Case("a", "failed", "no")], FAILED))
    with pytest.raises(running.Void, match="without a mutant, a fails"):
        list(Workshop(tmp_path).check_tests([DEAD]))


@pytest.mark.parametrize(
    ("cases", "ended", "state"),
    [
        ([Case("a", "passed"), Case("b", "failed", "no\nmore")], FAILED, "killed"),
        ([Case("a", "passed")], HELD, "survived"),
        ([Case("a", "skipped", "no server")], HELD, "skipped"),
        ([Case("a", "passed"), Case("b", "skipped")], HELD, "survived"),
        ([Case("a", "broken", "collection failure")], Ended(2, "ImportError", 1.0, False), "broken"),
        ([], Ended(4, "no such test", 1.0, False), "broken"),
        ([], Ended(-9, "", 1.0, True), "timeout"),
    ],
)
def test_what_the_tests_have_said(cases, ended, state):
    assert judged_by_tests(cases, ended).state == state


def test_what_takes_too_long_is_ended(tmp_path):
    ended = running.run(["sh", "-c", "sleep 60 & sleep 60"], tmp_path, {"PATH": "/usr/bin:/bin"}, 0.2)
    assert ended.late and ended.code == -9


def claim(verdict: str, *outcomes: str) -> dict:
    return {"verdict": verdict, "checks": [[f"{number}.", outcome] for number, outcome in enumerate(outcomes, 1)]}


def test_what_a_claim_notices():
    sound = claim("holds as corrected", "shown", "refuted")
    assert noticed(sound, sound) == ""
    assert noticed(sound, claim("holds", "shown", "shown")) == "holds, no longer holds as corrected"
    assert noticed(sound, claim("fails", "open", "refuted")) == "open: 1."
    assert noticed(sound, claim("fails")) == "gone: 1."


def test_the_report_counts_what_is_killed():
    mutants = [
        Mutant(name, CONSTANT, "ledger.py", "a", "b", "wrong", ("test_x.py::test_y",), ("ucb",)) for name in "abc"
    ]
    killed, lives = Outcome("killed", "test_x.py::test_y[1]", "no", 2.0), Outcome("survived", seconds=1.0)
    found = {
        "a": {"tests": killed, "claims": Outcome("killed", "ucb/rate", "open: 1.")},
        "b": {"tests": killed, "claims": lives},
        "c": {"tests": lives, "claims": Outcome("timeout")},
    }
    assert report.share_by_claims(mutants, found) == (2, 3)
    assert [mutant.id for mutant in report.alive(mutants, found)] == ["c"]
    assert report.seconds(found) == 6.0
    text = report.written(mutants, found, "by a command")
    assert "kill 2 of 3 mutants" in text and "kill 2: 67%" in text
    assert "| `a` | wrong | `x::test_y` | `ucb/rate` |" in text
    assert "| `c` | wrong | **survived** | *took too long* |" in text
    assert report.on_screen(mutants, found).row_count == report.listing(mutants).row_count == 3


def test_options():
    assert [mutant.id for mutant in options(["--only", "r1/,r2/off"]).mutants] == [
        "r2/off-by-one", "r1/off-by-one", "r1/one-too-few",
    ]  # fmt: skip
    assert {mutant.kind for mutant in options(["--kind", "client,store"]).mutants} == {"client", "store"}
    assert options([]).whole
    for wrong in (["--only", "nothing"], ["--kind", "else"], ["--document", "--only", "r1/"]):
        with pytest.raises(SystemExit):
            options(wrong)


def test_the_document_has_its_place_for_the_tables():
    text = (ROOT / "docs" / "mutants.md").read_text(encoding="utf-8")
    assert text.index(report.BEGIN) < text.index(report.END)


def test_short_claims_run_as_plain_python_where_they_would_be_compiled_anew():
    core = Mutant("a", CONSTANT, "rules/exact.py", "a", "b", "c", (), ("corrections/e1", "ucb/rate", "corrections/e1"))
    bound = Mutant("b", CONSTANT, "theory/upper.py", "a", "b", "c", (), ("corrections/e1", "ucb/rate"))
    assert [running.claims_of(core, how) for how in (True, False)] == [["corrections/e1"], ["ucb/rate"]]
    assert [running.claims_of(bound, how) for how in (True, False)] == [[], ["corrections/e1", "ucb/rate"]]
