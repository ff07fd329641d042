"""Nothing has changed that was not meant to: trajectories, decisions and saved files are those of version 0.1.0."""

from __future__ import annotations

import json

import pytest

import sparingly as sp
from sparingly.saving import dumps
from tests.frozen import trajectories as frozen

MADE_BY = {(2, "always", 64), (3, "always", 64)}  # version, how it explores, the length of the checksum
DIGESTS = json.loads(frozen.DIGESTS.read_text())


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
    assert {frozen.file_of(name) for name, _, _ in frozen.saved_agents()} == set(frozen.SAVED.iterdir())


PLAY = {name: play for name, _, play in frozen.agents()}


@pytest.mark.parametrize("name", [name.removeprefix("saved ") for name in DIGESTS if name.startswith("saved ")])
def test_agents_saved_by_0_1_0_go_on_as_they_would_have(name):
    path = frozen.file_of(name)
    agent = sp.Agent.load(path, types=[frozen.Sampling, frozen.Wide])
    assert getattr(agent.rule, "explore", "always") == "always"
    before, now = json.loads(path.read_text()), json.loads(dumps(agent))
    for part in (before, now):
        assert (part.pop("version"), part["rule"].pop("explore", "always"), len(part.pop("checksum"))) in MADE_BY
    assert now == before
    assert frozen.continued(agent, PLAY[name]) == DIGESTS[f"saved {name}"]
