"""One way through every setting: what a decision passes, what an Agent knows, and what does not fit together."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparingly as sp
from sparingly.settings import FAMILIES
from tests.conftest import ROOT

PACKAGE = ROOT / "src" / "sparingly"

TRACE = """
import json, sys
from pathlib import Path
import sparingly as sp

agent = sp.Agent(sp.UCB1(arms=3, ties="first"), rule=sp.ExactMatching(), budget=10, seed=0)
package, entered = Path(sp.__file__).parent, []


def trace(frame, event, argument):
    file = Path(frame.f_code.co_filename)
    if event == "call" and file.is_relative_to(package):
        entered.append((file.relative_to(package).as_posix(), frame.f_code.co_name))
    return None


sys.settrace(trace)
decision = agent.decide()
sys.settrace(None)
assert decision.ask
print(json.dumps(entered))
"""


@pytest.fixture(scope="module")
def entered() -> list[tuple[str, str]]:
    """The files and functions that one decision of UCB1 with ExactMatching enters, with the compiler off."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", TRACE], env=environment, capture_output=True, text=True, check=True)
    return [tuple(pair) for pair in json.loads(done.stdout)]


def test_a_decision_enters_six_files_at_most(entered):
    files = {file for file, _ in entered}
    assert files == {
        "agent.py", "tabular/family.py", "tabular/round.py", "tabular/ucb1.py", "rules/exact.py", "ledger.py",
    }  # fmt: skip


def test_a_breakpoint_in_the_rule_is_hit(entered):
    assert ("rules/exact.py", "asks") in entered


def test_a_round_is_propose_question_asks_settle(entered):
    """In this order, whatever else is called in between."""
    names = [name for _, name in entered]
    names = names[names.index("propose") :]
    steps = ["propose", "question_about", "asks", "settle", "charge"]
    assert [name for name in names if name in steps] == steps


def test_the_agent_names_no_setting():
    """Nor a learner; the one rule that it knows is its default."""
    code = re.sub(r'""".*?"""', "", (PACKAGE / "agent.py").read_text(), flags=re.DOTALL)
    names = {family.setting for family in FAMILIES} | {kind.__name__ for f in FAMILIES for kind in f.learners}
    for name in names - {"BalancedMatching"}:
        assert not re.search(rf"\b{name}\b", code), name


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.setting)
def test_what_an_agent_can_be_asked_about_is_there(family):
    """Every view that a family promises is one of the Agent's names, and the family has it, or the Agent does it."""
    for view in family.views:
        assert hasattr(sp.Agent, view), view
        assert hasattr(family, view) or view == "observe_episode", view


def test_the_layers_of_a_setting_are_in_its_folder():
    for family in FAMILIES:
        folder = PACKAGE / family.setting
        for part in ("learner", "learners", "memory", "round", "family", "simulator"):
            assert (folder / f"{part}.py").is_file(), f"{family.setting}/{part}.py"


@pytest.mark.parametrize("view", ["theta", "radius", "visits", "widths", "values"])
def test_what_another_setting_has_is_told_by_name(view):
    agent = sp.Agent(sp.UCB1(2), budget=1, seed=0)
    who = "(OFUL, Logistic and LinTS|UCBVI, ULCVI and StationaryUCBVI)"
    with pytest.raises(sp.InvalidInput, match=f"`{view}` is not for UCB1; agents of {who} have it"):
        getattr(agent, view)


def test_no_module_is_named_as_before():
    for name in ("families", "minds", "engine"):
        assert not (PACKAGE / name).exists()
    for word in ("desk", "book", "calling", "making", "reading", "answers", "playing", "watching", "judging", "bench"):
        assert not [path for path in PACKAGE.rglob("*.py") if path.stem == word], word


def test_no_words_by_number():
    """No module unpacks ranges into constants for places in an array."""
    for path in PACKAGE.rglob("*.py"):
        numbered = re.findall(r"^[A-Z_]+(?:, [A-Z_]+){5,} = ", path.read_text(), flags=re.MULTILINE)
        assert not [line for line in numbered if "WORDS" not in line], Path(path).name
