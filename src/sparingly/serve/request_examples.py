"""An example of every request body, for the OpenAPI document and the page that shows it."""

from __future__ import annotations

import json
from typing import Any

from sparingly.serve import contract, token_contract

ADDRESS = "http://127.0.0.1:8000"
PLACES = {"name": "router", "event_id": "request-1", "file": "page.js"}  # what the parts of a path are in examples
BODIES: dict[type, dict[str, Any]] = {
    contract.AgentBody: {
        "learner": {"type": "UCB1", "scale": 0.3},
        "actions": ["small", "large"],
        "contexts": ["code", "chat"],
        "budget": {"initial": 100, "growth": {"by": "clock", "amount": 50, "every": 86_400}},
    },
    contract.ChangeBody: {"add_actions": ["huge"], "granted": 500},
    contract.DecisionBody: {"event_id": "request-1", "context": "code", "payload": {"prompt": "sort a list"}},
    contract.FeedbackBody: {"reward": 1},
    contract.GrantBody: {"grant_id": "bonus-in-may", "amount": 30},
    contract.ChargeBody: {"charge_id": "asked-before-the-restore", "amount": 12},
    contract.ConfirmBody: {"now": "2026-01-31T12:00:00Z"},
    token_contract.TokenBody: {"name": "shop", "scopes": ["decide"], "agents": ["router"], "lasts": 2_592_000},
    token_contract.RotateBody: {"keep_old": 3_600},
}


def command(method: str, path: str, body: Any) -> str:
    """The same request with curl."""
    for name, value in PLACES.items():
        path = path.replace(f"{{{name}}}", value)
    verb = "" if method in ("GET", "POST") else f"-X {method} "
    if body is not None:
        return f"curl {verb}{ADDRESS}{path} --json '{json.dumps(body)}'"
    return f"curl {'-X POST ' if method == 'POST' else verb}{ADDRESS}{path}"
