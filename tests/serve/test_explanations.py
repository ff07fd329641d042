"""What the service says of its reasons, and what it makes of agents and decisions that version 0.1.0 has stored."""

from __future__ import annotations

from itertools import product
from typing import get_args

import msgspec
import pytest

from sparingly import reasons
from sparingly.serve import contract, explanations
from sparingly.serve.factory import make_agent, read_body


@pytest.mark.parametrize(("rule", "explores"), [("ExactMatching", "always"), ("Always", "always"), ("Greedy", None)])
def test_agents_of_0_1_0_go_on_exploring_in_every_round(rule, explores):
    text = f'{{"learner": {{"type": "UCB1", "ties": "first"}}, "actions": ["a", "b"], "rule": {{"type": "{rule}"}}}}'
    assert getattr(read_body(text).rule, "explore", None) == explores
    now = msgspec.json.encode(msgspec.json.decode(text, type=contract.AgentBody)).decode()
    assert getattr(read_body(now).rule, "explore", None) == (explores and "asked")
    assert make_agent(read_body(text)).rule.explore == "always"


def test_every_reason_can_be_stored_and_said():
    for chosen, whether in product(reasons.CHOSEN, reasons.WHETHER):
        text = explanations.stored(reasons.STEP * chosen + whether, None)
        assert explanations.reason_of(text) in get_args(contract.Reason)
        assert explanations.chosen_of(text) in get_args(contract.Chosen)
        assert explanations.in_words(text) == reasons.in_words(reasons.STEP * chosen + whether)
    assert set(explanations.SENTENCES) == set(get_args(contract.Reason))


def test_a_decision_of_0_1_0_says_what_it_knows():
    assert explanations.reason_of("below_threshold") == "below_threshold"
    assert explanations.chosen_of("below_threshold") is None
    assert explanations.in_words("below_threshold") == reasons.WHETHER[reasons.DECLINED]
