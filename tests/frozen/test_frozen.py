"""Nothing has changed that was not meant to: trajectories, decisions and saved files are those of version 0.1.0.

The rule AdaptiveMatching of 0.1.0 is no more. Its digests were taken out; its saved files are still here, for they must
load: BalancedMatching takes over.
"""

from __future__ import annotations

import json

import pytest

import sparingly as sp
from sparingly.errors import MigrationWarning
from sparingly.saving import dumps, loads
from tests.frozen import trajectories as frozen

LATER = {"forget": 0.0, "prior": 0.5, "prior_weight": 0.0}  # parameters of learners that came later
MADE_BY = {(2, "always", 64), (4, "always", 64)}  # version, how it explores, the length of the checksum
DIGESTS = json.loads(frozen.DIGESTS.read_text())
REPLACED = sorted(frozen.SAVED.glob("*_AdaptiveMatching_*"))  # agents with a rule that is no more


@pytest.mark.slow
def test_simulations_on_every_path():
    found = dict(frozen.simulations())
    assert len(found) > 800
    assert found == {name: DIGESTS[name] for name in found}


def test_decisions_with_late_and_missing_answers():
    found = dict(frozen.decisions())
    assert len(found) > 100
    assert found == {name: DIGESTS[name] for name in found}


def test_every_saved_agent_is_tried():
    tried = {frozen.file_of(name) for name, _, _ in frozen.saved_agents()}
    assert tried | set(REPLACED) == set(frozen.SAVED.iterdir()) and len(REPLACED) == 4


def without_notes(plain):
    """The memory of an episodic agent of 0.1.0 as it is written now: of its notes the squares are left."""
    if "notes" in plain["memory"]:
        notes = plain["memory"].pop("notes")
        plain["memory"]["squares"] = notes | {"shape": notes["shape"][:1], "data": notes["data"][::2]}


PLAY = {name: play for name, _, play in frozen.agents()}


@pytest.mark.parametrize("name", [name.removeprefix("saved ") for name in DIGESTS if name.startswith("saved ")])
def test_agents_saved_by_0_1_0_go_on_as_they_would_have(name):
    path = frozen.file_of(name)
    agent = sp.Agent.load(path, types=[frozen.Sampling, frozen.Wide])
    assert getattr(agent.rule, "explore", "always") == "always"
    before, now = json.loads(path.read_text()), json.loads(dumps(agent))
    for part in (before, now):
        assert [part["learner"].pop(*later) for later in LATER.items()] == list(LATER.values())
        assert (part.pop("version"), part["rule"].pop("explore", "always"), len(part.pop("checksum"))) in MADE_BY
    without_notes(before)
    assert now == before
    assert frozen.continued(agent, PLAY[name]) == DIGESTS[f"saved {name}"]


@pytest.mark.parametrize("path", REPLACED, ids=lambda path: path.stem)
def test_agents_with_adaptive_matching_go_on_with_balanced_matching(path):
    """What they remember stays as it was, and the ledger never refuses. test_saving.py has more such agents."""
    before = json.loads(path.read_text())
    assert before["rule"].keys() == {"type", "share"}
    with pytest.warns(MigrationWarning, match=r"AdaptiveMatching\(share=.*BalancedMatching\(reserve=") as told:
        agent = sp.Agent.load(path)
    assert len(told) == 1 and told[0].filename == __file__
    share = before["rule"]["share"]
    assert agent.rule == sp.BalancedMatching(reserve=int(share * 2**20) / 2**20, explore="always")
    text = dumps(agent)
    now = json.loads(text)
    without_notes(before)
    assert now["awaited"] == before["awaited"] and now["learner"] == before["learner"]
    assert now["memory"].keys() - before["memory"].keys() == {"pace", "scores"}
    assert {name: now["memory"][name] for name in before["memory"]} == before["memory"]
    problem = frozen.EPISODES["random"][0]
    seen = frozen.late_episodes(agent, problem, 150, 2)
    assert seen[-1] == 0 == agent.ledger.refused
    assert frozen.late_episodes(loads(text), problem, 150, 2) == seen  # saved again it loads without a word
