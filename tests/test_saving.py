"""Saved agents: they resume with identical decisions, and a file that cannot be believed is refused with the reason."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sparingly as sp
from sparingly import saving
from sparingly.errors import MigrationWarning
from sparingly.ledger import UNIT
from sparingly.rules.balanced import reserve_of
from sparingly.saving import dumps, loads
from tests.conftest import LEARNERS, RULES


@dataclasses.dataclass(frozen=True)
class Coin:
    """A learner of one's own: plays at random, remembers what it heard."""

    arms: int
    contexts: int = 1
    costs: object = None

    def start(self):
        return {"heard": np.zeros(self.arms)}

    def choose(self, state, context, round, random):
        return int(random.integers(self.arms))

    def learn(self, state, context, action, reward):
        state["heard"][action] += reward


def go_on(agent: sp.Agent, rounds: int, seed: int) -> list[sp.Decision]:
    random = np.random.default_rng(seed)
    decisions = []
    for _ in range(rounds):
        agent.grant(float(random.random() < 0.3))
        decisions.append(agent.decide(context=int(random.integers(agent.learner.contexts))))
        while agent.awaited and random.random() < 0.6:
            agent.observe(int(random.choice(agent.awaited)), float(random.random()))
    return decisions


@pytest.mark.parametrize("rule", RULES["tabular"], ids=repr)
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("ties", ["first", "random"])
def test_resumes_with_identical_decisions(tmp_path, learner, rule, ties):
    agent = sp.Agent(LEARNERS[learner](3, 2, ties=ties, costs=[0.5, 1, 2]), rule=rule, budget=5, seed=3)
    go_on(agent, 80, seed=0)
    agent.save(tmp_path / "a.json")
    loaded = sp.Agent.load(tmp_path / "a.json")
    assert dumps(loaded) == dumps(agent)
    assert go_on(loaded, 80, seed=1) == go_on(agent, 80, seed=1)
    assert repr(loaded) == repr(agent)


@pytest.mark.parametrize("rule", [sp.ExactMatching(), sp.Greedy(policies=2)], ids=repr)
def test_a_learner_of_ones_own(tmp_path, rule):
    agent = sp.Agent(Coin(arms=3), rule=rule, budget=5, seed=3)
    go_on(agent, 60, seed=0)
    agent.save(tmp_path / "a.json")
    with pytest.raises(sp.UnreadableFile, match=r"types=\[Coin\]"):
        sp.Agent.load(tmp_path / "a.json")
    loaded = sp.Agent.load(tmp_path / "a.json", types=[Coin])
    assert go_on(loaded, 60, seed=1) == go_on(agent, 60, seed=1)


def test_a_schedule_is_saved_too(tmp_path):
    for schedule in (sp.budgets.Linear(0.3), sp.budgets.Sequence([0, 2, 5])):
        agent = sp.Agent(sp.UCB1(2), rule=sp.Always(), budget=schedule, seed=0)
        go_on(agent, 20, seed=0)
        agent.save(tmp_path / "a.json")
        loaded = sp.Agent.load(tmp_path / "a.json")
        assert go_on(loaded, 20, seed=1) == go_on(agent, 20, seed=1)
        assert loaded.ledger.granted == agent.ledger.granted


@pytest.fixture
def saved(tmp_path):
    agent = sp.Agent(sp.UCB1(arms=3), rule=sp.Greedy(), budget=30, seed=0)
    go_on(agent, 50, seed=0)
    path = tmp_path / "a.json"
    agent.save(path)
    return path


def test_every_truncation_is_refused(saved):
    text = saved.read_text()
    for length in range(0, len(text) - 1, 37):
        saved.write_text(text[:length])
        with pytest.raises(sp.UnreadableFile, match="damaged or truncated"):
            sp.Agent.load(saved)


@given(st.data())
def test_every_changed_character_is_refused_or_means_the_same(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("s") / "a.json"
    agent = sp.Agent(sp.UCB1(arms=2), budget=5, seed=0)
    go_on(agent, 6, seed=0)
    agent.save(path)
    text = path.read_text()
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from('0123456789.-eE"{}[],: abcNI\\\n'))
    path.write_text(text[:place] + letter + text[place + 1 :])
    try:
        loaded = sp.Agent.load(path)
    except sp.UnreadableFile:
        return
    assert dumps(loaded) == dumps(agent)


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", '{"format": "other"}', '"x"', "[" * 100_000])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(sp.UnreadableFile):
        sp.Agent.load(path)


def test_binary_files_are_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(sp.UnreadableFile, match="not a text file"):
        sp.Agent.load(path)


def test_a_newer_version_is_refused(saved):
    data = json.loads(saved.read_text())
    data["version"] = saving.VERSION + 1
    saved.write_text(json.dumps(data))
    with pytest.raises(sp.UnreadableFile, match="upgrade"):
        sp.Agent.load(saved)


def edited(path, edit):
    """Change a saved agent and make its checksum right again."""
    data = json.loads(path.read_text())
    del data["checksum"]
    edit(data)
    path.write_text(json.dumps(data | {"checksum": saving._checksum(data)}))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda d: d["memory"]["account"]["data"].__setitem__(1, 10**9), "ledger does not add up"),
        (lambda d: d["memory"]["account"]["data"].__setitem__(0, 0), "ledger does not add up"),
        (lambda d: d["memory"]["counts"]["data"].__setitem__(1, 999), "do not add up"),
        (lambda d: d["awaited"].append([1, [0, 7]]), "does not exist"),
        (lambda d: d["awaited"].append([999, [0, 1]]), "never made"),
        (lambda d: d["memory"].pop("clock"), "clock"),
        (lambda d: d["learner"].update(arms=4), "was expected"),
        (lambda d: d["learner"].update(colour="red"), "colour"),
        (lambda d: d["rule"].update(type="os.system"), "not part of sparingly"),
        (lambda d: d.update(memory=None), "is inconsistent"),
    ],
)
def test_a_file_that_does_not_hold_together_is_refused(saved, edit, reason):
    edited(saved, edit)
    with pytest.raises(sp.UnreadableFile, match=reason):
        sp.Agent.load(saved)


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_text()
    monkeypatch.setattr(saving.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        sp.Agent(sp.UCB1(2), budget=0, seed=0).save(saved)
    assert saved.read_text() == before
    assert list(saved.parent.iterdir()) == [saved]


@dataclasses.dataclass(frozen=True)
class Derived(Coin):
    """Has a field that is computed."""

    total: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass(frozen=True)
class Lossy(Coin):
    """Has a parameter that JSON would change."""

    table: object = None


def test_what_is_saved_can_be_read_back_as_it_was(tmp_path):
    path = tmp_path / "a.json"
    sp.Agent(Derived(2), budget=0, seed=0).save(path)
    assert sp.Agent.load(path, types=[Derived]).learner == Derived(2)
    for table in ({1: 2}, (1, 2), 1j, print):
        with pytest.raises(sp.InvalidInput, match="cannot be saved"):
            sp.Agent(Lossy(2, table=table), budget=0, seed=0).save(path)
    agent = sp.Agent(sp.UCB1(2), budget=5, seed=0)
    agent.ledger.charge(1)  # spent by the caller, not by an ask
    agent.save(path)
    assert sp.Agent.load(path).ledger.spent == 1


def test_the_mode_of_a_file_is_kept(tmp_path):
    path = tmp_path / "a.json"
    agent = sp.Agent(sp.UCB1(2), budget=0, seed=0)
    agent.save(path)
    path.chmod(0o640)
    agent.save(path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_cannot_be_saved_says_so(tmp_path):
    class Plain:
        def asks(self, question):
            return False

    with pytest.raises(sp.InvalidInput, match="make it a dataclass"):
        sp.Agent(sp.UCB1(2), rule=Plain(), budget=0, seed=0).save(tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


# Files of earlier versions; tests/frozen has those of 0.1.0 itself.


def rewritten(agent, version, rule=None):
    """The text of an agent as an earlier version wrote it: notes of two numbers for each cell of an episode."""
    plain = json.loads(dumps(agent))
    del plain["checksum"]
    squares = plain["memory"].pop("squares")
    data = [number for square in squares["data"] for number in (square, 7.5)]
    plain["memory"]["notes"] = squares | {"shape": [len(squares["data"]), 2], "data": data}
    plain |= {"version": version} | ({} if rule is None else {"rule": rule})
    return json.dumps(plain | {"checksum": saving._checksum(plain)})


def go_on_in_episodes(agent, episodes, seed):
    random, seen = np.random.default_rng(seed), []
    H, S, _ = agent.learner.shape
    for _ in range(episodes):
        agent.grant(float(random.integers(0, 3)))
        policy, states = agent.plan(), random.integers(S, size=H)
        seen += [policy.tolist(), agent.decide_episode(states, policy[np.arange(H), states]).tolist()]
        while agent.awaited and random.random() < 0.6:
            agent.observe(agent.awaited[0], float(random.random()))
    return seen


@pytest.mark.parametrize("rule", [sp.BalancedMatching(), sp.PaperMatching(), sp.Greedy(policies=2)], ids=repr)
def test_notes_of_version_3_are_read(rule):
    agent = sp.Agent(sp.UCBVI(3, 2, 2, scale=0.1), rule=rule, budget=20, seed=0)
    go_on_in_episodes(agent, 60, seed=0)
    loaded = loads(rewritten(agent, 3))
    assert dumps(loaded) == dumps(agent)
    assert go_on_in_episodes(loaded, 60, seed=1) == go_on_in_episodes(agent, 60, seed=1)


def tightest(share, counts, costs):
    """The least budget, in millionths, under which AdaptiveMatching could have asked so often: its invariant."""

    def fits(budget):
        kappa = Fraction(share) * budget / max(sum(costs), 1)
        return spent + sum(c * max(kappa - n, 0) for n, c in zip(counts, costs, strict=True)) <= budget

    spent = sum(c * n for n, c in zip(counts, costs, strict=True))
    low, high = spent, spent + 1
    while not fits(high):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


SHARES = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]) | st.floats(0.0, 0.99)


@given(
    share=SHARES,
    cells=st.lists(st.tuples(st.integers(0, 12), st.sampled_from([1, 300, 10**5, 999_983, 10**6])), min_size=1),
    grants=st.lists(st.sampled_from([0.0, 0.000001, 0.4, 1.0, 9.0]), max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
@example(share=0.1, cells=[(200, 899_998), (0, 10**6)], grants=[], seed=0)  # refused once, if the reserve were 0.1
def test_the_switch_to_balanced_matching_is_safe(share, cells, grants, seed):
    """From any state that AdaptiveMatching can leave, as tight as can be: never refused, whatever an adversary does."""
    counts, costs = [n for n, _ in cells], [c for _, c in cells]
    learner = sp.UCBVI(len(cells), 1, 1, costs=[[c / UNIT] for c in costs])
    agent = sp.Agent(learner, rule=sp.Always(explore="always"), budget=0, seed=0)
    agent.ledger.granted_units = sum(n * c for n, c in cells)
    for state, count in enumerate(counts):
        for _ in range(count):
            agent.decide_episode([state], [0])
    assert agent.asked[0, :, 0].tolist() == counts
    agent.ledger.granted_units = tightest(share, counts, costs)
    with pytest.warns(MigrationWarning):
        agent = loads(rewritten(agent, 2, {"type": "AdaptiveMatching", "share": share}))
    random, reserve = np.random.default_rng(seed), agent.rule.reserve
    for more in [0.0, *grants]:
        agent.grant(more)
        for state in (*np.argsort(agent.asked[0, :, 0]), *random.integers(len(cells), size=5)):
            for _ in range(100):
                if not agent.decide_episode([state], [0])[0]:
                    break
        assert agent.ledger.refused == 0
        assert agent.ledger.spent <= agent.ledger.granted
    kept = reserve_of(agent.ledger.granted_units, reserve, math.ceil(sum(costs) / reserve)) if reserve else 0
    assert agent.asked.min() >= min(kept // sum(costs), 100)  # what is reserved for a cell is there when it comes


@dataclasses.dataclass(frozen=True)
class AdaptiveMatching:
    """A rule of one's own that happens to have the name of one that is no more."""

    share: float = 0.5

    def asks(self, question):
        return question.asked < 3


def test_a_rule_of_ones_own_is_not_replaced():
    agent = sp.Agent(sp.UCB1(2), rule=AdaptiveMatching(0.25), budget=9, seed=0)
    assert loads(dumps(agent, check=False), types=(AdaptiveMatching,)).rule == AdaptiveMatching(0.25)


def test_a_rule_that_is_no_more_says_what_takes_its_place():
    with pytest.raises(AttributeError, match=r"AdaptiveMatching is no more; use BalancedMatching\(reserve=share"):
        sp.AdaptiveMatching  # noqa: B018
    assert not hasattr(sp, "NoSuchRule")
