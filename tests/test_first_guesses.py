"""What people try in a notebook without reading: each works, or says what to write instead."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import sparingly as sp
import sparingly.gym
from sparingly import errors


def agent(**options) -> sp.Agent:
    return sp.Agent(sp.UCB1(2), **{"budget": 10, "seed": 0} | options)


def asked(**options) -> tuple[sp.Agent, sp.Decision]:
    made = agent(**options)
    return made, made.decide()


def spent() -> sp.Agent:
    return agent(budget=0)


SAYS = {  # what is tried, and what to write instead
    "Agent(3)": (lambda: sp.Agent(3, budget=10), r"write Agent\(UCB1\(3\), …\)"),
    "Agent of a list": (lambda: sp.Agent(["a", "b"], budget=10), r"write Agent\(UCB1\(2\), actions=\['a', 'b'\], …\)"),
    "Agent of a text": (lambda: sp.Agent("UCB1", budget=10), "without quotes"),
    "Agent of a class": (lambda: sp.Agent(sp.UCB1, budget=10), r"write UCB1\(…\), with its sizes"),
    "no budget": (lambda: sp.Agent(sp.UCB1(2)), "as in budget=100"),
    "the budget second": (lambda: sp.Agent(sp.UCB1(2), 10), "write budget=10"),
    "a budget a day": (lambda: agent(budget="100/day"), r"budgets.ByClock\(100\) for 100 a day"),
    "a rule as a class": (lambda: sp.Agent(sp.UCB1(2), sp.Greedy, 10), r"write Greedy\(\)"),
    "a rule as a text": (lambda: sp.Agent(sp.UCB1(2), "exact", 10), r"ExactMatching\(…\), .* without quotes"),
    "decide about an action": (lambda: agent(actions=["a", "b"]).decide("a"), r"call decide\(\) without one"),
    "a context misspelt": (
        lambda: sp.Agent(sp.UCB1(2, contexts=2), budget=1, contexts=["web", "app"]).decide("wbe"), "'web' or 'app'",
    ),
    "observe before decide": (lambda: agent().observe(1, 0.5), r"call decide\(\) first"),
    "a reward as a text": (lambda: (lambda a, d: a.observe(d, "5"))(*asked()), r"write float\('5'\)"),
    "no reward": (lambda: (lambda a, d: a.observe(d, None))(*asked()), "do not call observe"),
    "five stars": (lambda: (lambda a, d: a.observe(d, 5))(*asked()), r"such as rewards=\(1, 5\)"),
    "what was not asked": (lambda: (lambda a: a.observe(a.decide(), 1))(spent()), "only where its `ask` is true"),
    "twice": (lambda: (lambda a, d: [a.observe(d, 1), a.observe(d, 1)])(*asked()), "answered already"),
    "all of a batch": (
        lambda: (lambda a: a.observe_batch(a.decide_batch(30), [1] * 30))(agent()), "only where its `ask` is true",
    ),
    "explain an id": (lambda: agent().explain(1), r"the decision that decide\(\) has returned"),
    "simulate a list": (lambda: sp.simulate([0.1, 0.2], sp.UCB1(2), sp.Never(), 1, rounds=9), r"problems\.Arms\(\["),
    "simulate what has steps": (
        lambda: sp.simulate(types.SimpleNamespace(step=len), sp.UCB1(2), sp.Never(), 1, rounds=9), "a loop of your own",
    ),
    "a grant as a text": (lambda: agent().grant("5"), "a grant must be a number"),
}  # fmt: skip


@pytest.mark.parametrize("what", SAYS)
def test_it_says_what_to_write_instead(what):
    tried, message = SAYS[what]
    with pytest.raises(sp.InvalidInput, match=message):
        tried()


@pytest.mark.parametrize(
    "reward", [True, np.True_, np.float32(0.5), np.int64(1), np.array(0.5), Decimal("0.5"), Fraction(1, 2), 1], ids=repr
)
def test_rewards_as_they_are_at_hand(reward):
    made, d = asked()
    made.observe(d, reward)
    assert made.means[0, d.index] == float(reward)


def test_tables_of_rewards_and_contexts():
    made = sp.Agent(sp.UCB1(2, contexts=2), budget=100, contexts=["web", "app"])
    decided = made.decide_batch(pd.Series(["web", "app", "web"], index=[7, 8, 9]))
    made.observe_batch(decided, pd.Series([1, 0, 1], index=[7, 8, 9]))
    made.observe_batch([d.id for d in made.decide_batch(["app"] * 2)], np.array([True, False]))
    assert made.answered.sum() == 5
    rows = sp.Agent(sp.OFUL(dim=2), budget=3).decide(pd.DataFrame({"age": [0.1, 0.2], "price": [0.3, 0.4]}))
    assert rows.index in (0, 1)


@pytest.mark.parametrize(
    ("name", "instead"), [("budget", r"agent\.ledger"), ("left", r"agent\.ledger\.left"), ("update", r"agent\.observe")]
)
def test_attributes_that_are_called_otherwise(name, instead):
    with pytest.raises(AttributeError, match=instead):
        getattr(agent(), name)
    with pytest.raises(AttributeError, match=r"no `nonsense`$"):
        agent().nonsense  # noqa: B018


def test_its_length_its_truth_and_its_looks():
    made = agent()
    with pytest.raises(TypeError, match=r"agent\.decisions"):
        len(made)
    assert made
    assert "UCB1" in str(made) and "granted=10" in str(made)
    assert "<table>" in made._repr_html_()


def test_names_are_found_and_those_that_are_no_ones_business_are_not_shown():
    assert {"Agent", "UCB1", "Client", "simulate"} <= set(dir(sp))
    assert not {"TYPE_CHECKING", "numba_support", "family", "roster", "get_close_matches"} & set(dir(sp))
    assert set(dir(sparingly.gym)) == set(sparingly.gym.__all__)
    with pytest.raises(AttributeError, match=r"did you mean UCB1\?"):
        sp.ucb1  # noqa: B018


def test_a_figure_without_matplotlib_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(sp.MissingExtra, match="needs the extra 'lab': pip install"):
        agent().plot()


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'sparingly[lab]'"),
        ({"url": "file:///a%20b/src", "dir_info": {"editable": True}}, "pip install -e '/a b/src[lab]'"),
        ({"url": "file:///a/src", "dir_info": {}}, "pip install 'sparingly[lab] @ file:///a/src'"),
        ({"url": "file:///a/s.whl", "archive_info": {}}, "pip install 'sparingly[lab] @ file:///a/s.whl'"),
    ],
)
def test_the_command_fits_where_the_package_came_from(monkeypatch, origin, command):
    class Installed:
        def read_text(self, name):
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    assert errors.install_command("lab") == command


def test_the_command_for_this_very_installation_is_one_that_pip_understands():
    extra = errors.install_command("client").removeprefix("pip install ")
    run = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "--no-build-isolation"]
    words = extra.removeprefix("-e ").strip("'")
    made = subprocess.run([*run, *(["-e"] if extra.startswith("-e ") else []), words], capture_output=True, text=True)
    assert "Invalid requirement" not in made.stderr + made.stdout
    assert "does not exist" not in made.stderr + made.stdout
