"""Changes of an agent while it lives: what a request asks for, as a new body and as steps that a replay can repeat.

The log has the steps. The agent's row has the body as it was created, from which a replay begins, and as it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sparingly.agent import Agent
from sparingly.serve.contract import AgentBody, ChangeBody
from sparingly.serve.factory import check_body, make_rule, read_body
from sparingly.serve.http_errors import Unprocessable, Unreadable
from sparingly.serve.records import AgentRecord

CHANGED = '{"now":'  # how the stored text begins, once an agent was changed


class Stored(Struct, frozen=True):
    """An agent that was changed, as the store has it. Retired actions and contexts by their numbers."""

    now: msgspec.Raw
    first: msgspec.Raw
    retired_actions: list[int] = []
    retired_contexts: list[int] = []


class Roster(Struct, frozen=True):
    """What an agent is now, what it was at first, and what was retired since."""

    body: AgentBody
    first: AgentBody
    retired_actions: frozenset[int] = frozenset()
    retired_contexts: frozenset[int] = frozenset()

    def names(self, what: str) -> list[str]:
        """The names of what was retired."""
        names, retired = getattr(self.body, what) or [], getattr(self, f"retired_{what}")
        return [names[i] for i in sorted(retired)]

    def text(self) -> str:
        """As the store has it."""
        now, first = (msgspec.Raw(msgspec.json.encode(body)) for body in (self.body, self.first))
        stored = Stored(now, first, sorted(self.retired_actions), sorted(self.retired_contexts))
        return msgspec.json.encode(stored).decode()


def roster(record: AgentRecord) -> Roster:
    """What a stored agent chooses from. Raises Unreadable if its body is none any more."""
    text = record.body
    try:
        if not text.startswith(CHANGED):
            body = read_body(text)
            return Roster(body, body)
        stored = msgspec.json.decode(text, type=Stored)
        body, first = (read_body(bytes(raw).decode()) for raw in (stored.now, stored.first))
    except (msgspec.MsgspecError, UnicodeError):
        raise Unreadable(record.name) from None
    return Roster(body, first, frozenset(stored.retired_actions), frozenset(stored.retired_contexts))


def stored_body(record: AgentRecord) -> AgentBody:
    """The body of a stored agent, as it is now."""
    return roster(record).body


class Change:
    """One request against an agent as it is: `roster` is what it becomes, `steps` are what its Agent has to do."""

    def __init__(self, before: Roster, wanted: ChangeBody) -> None:
        self.roster, self.wanted, self.steps = before, wanted, list[list[Any]]()
        others = (wanted.retire_actions, wanted.add_contexts, wanted.retire_contexts, wanted.rule)
        if before.body.linear and any(others):
            raise Unprocessable(
                "with features, actions are the rows of each decision, and the rule is fixed: only names of actions "
                "can be added. Without `actions` an agent takes any number of rows"
            )
        if before.body.shares_input and wanted.add_actions:
            raise Unprocessable("with labels the classes are fixed from the start: make a new agent for more of them")
        costs = wanted.costs if wanted.costs is not None else [None] * len(wanted.add_actions)
        if len(costs) != len(wanted.add_actions):
            raise Unprocessable("costs must be those of add_actions: as many numbers as names")
        for what in ("actions", "contexts"):
            for place, name in enumerate(getattr(wanted, f"add_{what}")):
                self._add(what, name, costs[place] if what == "actions" else None)
            for name in getattr(wanted, f"retire_{what}"):
                self._retire(what, name)
        if wanted.rule is not None and wanted.rule != self.roster.body.rule:
            self._put(rule=wanted.rule)
            self.steps.append(["change_rule", msgspec.to_builtins(wanted.rule)])
        if self.steps:
            check_body(self.roster.body)

    def _put(self, retired: dict[str, frozenset[int]] | None = None, **fields: Any) -> None:
        body = msgspec.structs.replace(self.roster.body, **fields)
        self.roster = msgspec.structs.replace(self.roster, body=body, **(retired or {}))

    def _names(self, what: str) -> tuple[list[str], frozenset[int]]:
        names = getattr(self.roster.body, what)
        if names is None:
            raise Unprocessable(f"this agent has no names of {what}: there is nothing to add to, and nothing to retire")
        return names, getattr(self.roster, f"retired_{what}")

    def _add(self, what: str, name: str, cost: float | None) -> None:
        names, retired = self._names(what)
        known = name in names
        if known and names.index(name) not in retired:
            return  # it was added before
        method = f"add_{what[:-1]}"
        if known:
            number = names.index(name)
            self._put({f"retired_{what}": retired - {number}})
            self.steps.append([method, number, None])
            return
        fields: dict[str, Any] = {what: [*names, name]}
        if what == "actions":
            costs = self.roster.body.costs
            if costs is not None and cost is None:
                raise Unprocessable(f"actions have costs here: say in `costs` what asking about {name!r} costs")
            if cost is not None:
                fields["costs"] = [*(costs or [1.0] * len(names)), cost]
        if self.roster.body.linear:
            if fields.get("costs") is not None:
                raise Unprocessable("with features the costs are fixed: make a new agent")
            self.steps.append(["name_row", name])
        else:
            self.steps.append([method, None, cost])
        self._put(**fields)

    def _retire(self, what: str, name: str) -> None:
        names, retired = self._names(what)
        if name not in names:
            raise Unprocessable(f"there is no {what[:-1]} {name!r} to retire; {what}: {', '.join(names[:20])}")
        number = names.index(name)
        if number in retired:
            return  # it was retired before
        if len(names) - len(retired) == 1:
            raise Unprocessable(f"{name!r} is the last of the {what}: add another one first")
        self._put({f"retired_{what}": retired | {number}})
        self.steps.append([f"retire_{what[:-1]}", number])


def carry_out(agent: Agent, steps: Sequence[Sequence[Any]]) -> None:
    """Change an agent, as the log says. Its actions have no names here: numbers stand for them."""
    for method, *arguments in steps:
        if method == "change_rule":
            agent.change_rule(make_rule(arguments[0]))
        elif method in ("add_action", "add_context"):
            getattr(agent, method)(arguments[0], cost=arguments[1])
        elif method in ("retire_action", "retire_context"):
            getattr(agent, method)(arguments[0])
        else:
            assert method == "name_row", f"no agent can do {method}"
