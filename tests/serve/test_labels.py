"""Answers that name the right action, over HTTP: for arms and for Softmax, which a replay of the log learns alike."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparingly as sp
from tests.serve.test_api import LINEAR, ROWS, ask, driving

ARMS = {"learner": {"type": "UCB1"}, "actions": ["a", "b", "c"], "budget": {"initial": 50.0}}
LABELS = {
    "learner": {"type": "Softmax", "dim": 2}, "actions": ["a", "b", "c"], "budget": {"initial": 50.0},
    "rewards": {"low": 1.0, "high": 5.0},
}  # fmt: skip
INPUTS = [[0.6, 0.8], [1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]]


def answers(driver, name, count):
    """Decisions, some answered with a label, some with a reward; what the service says of them."""
    told = []
    for t in range(count):
        body = {"event_id": f"e{t}"} | ({"features": [INPUTS[t % 4]]} if name == "labels" else {})
        made = ask(driver, "POST", f"/v1/agents/{name}/decisions", body)
        if made["ask"]:
            low, high = (1.0, 5.0) if name == "labels" else (0.0, 1.0)
            right = "abc"[t % 4 % 3]
            sent = {"label": right} if t % 5 else {"reward": high if made["action"] == right else low}
            kept = ask(driver, "POST", f"/v1/agents/{name}/decisions/e{t}/feedback", sent)
            assert kept["reward"] == (high if made["action"] == right else low) and kept["learned"]
        told.append((made["action"], made["ask"], made["width"]))
    return told


@pytest.mark.parametrize(("name", "body"), [("arms", ARMS), ("labels", LABELS)])
def test_the_service_does_what_an_agent_does(name, body, tmp_path):
    learner = sp.UCB1(3) if name == "arms" else sp.Softmax(2, 3)
    twin, expected = sp.Agent(learner, budget=50, seed=0), []
    for t in range(30):
        decision, right = twin.decide(INPUTS[t % 4] if name == "labels" else None), t % 4 % 3
        expected.append(("abc"[decision.index], decision.ask, decision.width))
        if decision.ask:
            answer = {"label": right} if t % 5 else {"reward": decision.index == right}
            twin.observe(decision, **answer)
    with driving(tmp_path) as driver:
        ask(driver, "PUT", f"/v1/agents/{name}", body, 201)
        told = answers(driver, name, 30)
        for (action, asks, width), (same_action, same_ask, same_width) in zip(told, expected, strict=True):
            assert (action, asks) == (same_action, same_ask)
            assert width == pytest.approx(same_width) or width is None


@pytest.mark.parametrize(("name", "body"), [("arms", ARMS), ("labels", LABELS)])
def test_a_replay_of_the_log_learns_the_same(name, body, tmp_path):
    """A service that starts anew goes on as one that has not stopped."""
    results = []
    for stops in (True, False):
        folder = tmp_path / str(stops)
        with driving(folder) as driver:
            ask(driver, "PUT", f"/v1/agents/{name}", body, 201)
            answers(driver, name, 20)
            if not stops:
                results.append(json.dumps(ask(driver, "GET", f"/v1/agents/{name}/estimates")))
        if stops:
            with driving(folder) as driver:
                results.append(json.dumps(ask(driver, "GET", f"/v1/agents/{name}/estimates")))
    assert results[0] == results[1]


def test_bad_labels(tmp_path):
    with driving(tmp_path) as driver:
        for name, body, features in (("arms", ARMS, None), ("labels", LABELS, [INPUTS[0]]), ("lines", LINEAR, ROWS)):
            ask(driver, "PUT", f"/v1/agents/{name}", body, 201)
            wanted = {"event_id": "e"} | ({"features": features} if features else {})
            assert ask(driver, "POST", f"/v1/agents/{name}/decisions", wanted)["ask"]
        for name, sent, says in (
            ("arms", {}, "either the `reward`"),
            ("arms", {"label": "a", "reward": 1}, "either the `reward`"),
            ("arms", {"label": "d"}, "label must be one of the actions"),
            ("arms", {"label": 3}, "label must be one of the actions"),
            ("labels", {"reward": 2.5}, "5 if the action was right, and 1 if not"),
            ("lines", {"label": "a"}, "an answer tells of one action"),
        ):
            problem = ask(driver, "POST", f"/v1/agents/{name}/decisions/e/feedback", sent, 422)
            assert says in problem["detail"]
        ask(driver, "POST", "/v1/agents/labels/decisions", {"features": INPUTS}, 422)
        ask(driver, "PUT", "/v1/agents/more", LABELS | {"actions": None}, 422)
        ask(driver, "PATCH", "/v1/agents/labels", {"add_actions": ["d"]}, 422)
        first = ask(driver, "POST", "/v1/agents/labels/decisions/e/feedback", {"label": 1})
        assert ask(driver, "POST", "/v1/agents/labels/decisions/e/feedback", {"label": 1}) == first
        other = {"label": "abc"[ask(driver, "GET", "/v1/agents/labels/decisions/e")["action_index"]]}
        if first["reward"] == 1.0:
            ask(driver, "POST", "/v1/agents/labels/decisions/e/feedback", other, 409)


def test_estimates_are_probabilities(tmp_path):
    with driving(tmp_path) as driver:
        ask(driver, "PUT", "/v1/agents/labels", LABELS, 201)
        answers(driver, "labels", 8)
        found = ask(driver, "GET", "/v1/agents/labels/estimates")["estimates"]
    assert [part["action"] for part in found] == ["a", "b", "c"]
    assert sum(part["mean"] for part in found) == pytest.approx(1.0)
    assert np.all([part["low"] <= part["mean"] <= part["high"] for part in found])
