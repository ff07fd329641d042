"""What an agent chooses from, by name: its actions and contexts, and how they change while it lives."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sparingly.errors import InvalidInput
from sparingly.ledger import Ledger
from sparingly.naming import Name, Names, Scale
from sparingly.protocol import QueryRule
from sparingly.rules import Rule
from sparingly.settings import check_is_rule
from sparingly.validation import shown, whole

F = TypeVar("F", bound=Callable[..., Any])


def locked(method: F) -> F:
    """One call at a time: whoever comes from another thread waits."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        with self._lock:
            return method(self, *arguments, **named)

    return cast(F, call)


class Roster:
    """The part of an Agent that knows the names of actions and contexts, and adds and retires them."""

    _lock: threading.RLock
    _family: Any
    learner: Any
    rule: Rule | QueryRule
    ledger: Ledger

    def _set_names(self, actions: Any, contexts: Any, rewards: Any) -> None:
        """What people call actions and contexts, and their scale of rewards."""
        sizes = self._family.nameable
        made: dict[str, Names | None] = {}
        for what, names in (("actions", actions), ("contexts", contexts)):
            made[what] = None if names is None else Names(names, what[:-1])
            if names is None:
                continue
            if what not in sizes:
                raise InvalidInput(f"{what} have no names with {type(self.learner).__name__}: leave `{what}` out")
            if sizes[what] is not None and sizes[what] != len(made[what] or ()):
                raise InvalidInput(
                    f"{self.learner!r} has {sizes[what]} {what}, but {len(made[what] or ())} names were given"
                )
        self._actions, self._contexts = made["actions"], made["contexts"]
        self._named = self._actions is not None or self._contexts is not None
        if rewards is not None and not getattr(self._family, "rescales", True):
            raise InvalidInput(
                f"{type(self.learner).__name__} takes rewards as they are: name the range with the learner's own "
                "`rewards`, and leave out that of the agent"
            )
        try:
            self._scale = None if rewards is None else Scale(*rewards)
        except TypeError:
            raise InvalidInput(f"rewards must be (low, high), as in (1, 5), not {rewards!r}") from None

    @property
    def actions(self) -> list[Name] | None:
        """The names of the actions, if they have any, in the order of their numbers, retired ones included."""
        return None if self._actions is None else list(self._actions.names)

    @property
    def contexts(self) -> list[Name] | None:
        """The names of the contexts, if they have any."""
        return None if self._contexts is None else list(self._contexts.names)

    @property
    def rewards(self) -> tuple[float, float] | None:
        """The scale of the rewards, if one was given."""
        return None if self._scale is None else (self._scale.low, self._scale.high)

    def _context_number(self, context: Any) -> Any:
        """A context as the family takes it: its number in place of its name."""
        if self._contexts is None or context is None:
            return context
        number = self._contexts.index(context)
        if number in self._family.retired["contexts"]:
            raise InvalidInput(f"context {context!r} was retired; add_context({context!r}) brings it back")
        return number

    def action_name(self, index: int) -> Any:
        """The name of an action, or its number if actions have no names."""
        return index if self._actions is None else self._actions[index]

    def context_name(self, index: int) -> Any:
        """The name of a context, or its number if contexts have no names."""
        return index if self._contexts is None else self._contexts[index]

    # Changes while the agent lives.

    @property
    def retired_actions(self) -> list[Any]:
        """The actions that are never played any more, by name, or by number if they have no names."""
        return [self.action_name(a) for a in sorted(self._family.retired["actions"])]

    @property
    def retired_contexts(self) -> list[Any]:
        """The contexts that no decision may have any more, by name or number."""
        return [self.context_name(u) for u in sorted(self._family.retired["contexts"])]

    @locked
    def add_action(self, name: Name | None = None, cost: Any = None) -> Any:
        """Add an action, or bring back a retired one.

        Give a name if actions have names, and only then. A retired action comes back with all that was learnt about it.
        `cost` is what asking about the new action costs, a number or one for each context; by default the same as for
        the others.

        The rest of the budget is divided anew among all actions. The budget stays hard, and a rule that is never
        refused still is not (docs/paper.md has the proof). For arms, with a built-in learner or a compiled one of your
        own. With OFUL actions are the rows of the features: pass one row more. If rows have names, this adds a name.

        Returns: the name of the action, or its number if actions have no names.
        """
        return self._add("actions", name, cost)

    @locked
    def retire_action(self, action: Name) -> None:
        """Retire an action: the agent never plays it again, nor asks about it. One action must remain.

        What was learnt is kept, late answers are still learnt, and the other actions keep their numbers. The action's
        share of the budget goes to the others. With OFUL, if rows have names, the name and its row are removed.
        """
        self._retire("actions", action)

    @locked
    def add_context(self, name: Name | None = None, cost: Any = None) -> Any:
        """Add a context, or bring back a retired one, as `add_action`. `cost`: a number, or one for each action."""
        return self._add("contexts", name, cost)

    @locked
    def retire_context(self, context: Name) -> None:
        """Retire a context, as `retire_action` does: no decision can have it any more. One context must remain."""
        self._retire("contexts", context)

    @locked
    def change_rule(self, rule: Rule | QueryRule) -> None:
        """Use another rule from now on. What was learnt, asked and spent stays. For arms.

        The rest of the budget is divided anew, as in `add_action`, so it does not matter which rule asked before.
        """
        check_is_rule(rule)
        self._family.set_rule(rule)
        self.rule = rule
        self.ledger.attach(self._family.account)

    def _add(self, what: str, name: Any, cost: Any) -> Any:
        names, family = self._names_of(what), self._family
        retired = family.retired[what]
        if names is None and name is not None and name not in retired:
            again = f"; retired so far: {sorted(retired)}" if retired else ""
            raise InvalidInput(
                f"{what} have no names here, and {shown(name)} is not the number of a retired one: leave it out{again}"
            )
        if names is not None and name is None:
            raise InvalidInput(f"{what} have names here: give the new one a name, too")
        number = name if names is None else names.places.get(name)
        if number is not None and number in retired:
            if cost is not None:
                raise InvalidInput(f"{shown(name)} comes back with the cost that it had before: leave `cost` out")
            family.set_live(what, number, True)
        else:
            longer = None if names is None else Names([*names.names, name], what[:-1])
            number = self._add_row(longer, cost) if self._is_row(what) else family.add(what, cost)
            self._rename(what, longer)
        return self._changed(what, number)

    def _retire(self, what: str, value: Any) -> None:
        names, family, size = self._names_of(what), self._family, self._family.nameable.get(what)
        if names is not None:
            number = names.index(value)
        elif size is not None:
            number = whole(value, f"the number of one of the {what}", least=0, most=size - 1)
        else:
            family.set_live(what, 0, False)  # says why not
            return
        count = len(names.names) if names is not None else size
        if number in family.retired[what]:
            raise InvalidInput(f"{shown(value)} is retired already")
        if count - len(family.retired[what]) == 1:
            raise InvalidInput(f"{shown(value)} is the last of the {what}: add another one first")
        if names is not None and self._is_row(what):
            self._rename(what, Names([name for name in names.names if name != value], what[:-1]))
        else:
            family.set_live(what, number, False)
        self._changed(what, number)

    def _names_of(self, what: str) -> Names | None:
        return self._actions if what == "actions" else self._contexts

    def _rename(self, what: str, names: Names | None) -> None:
        if what == "actions":
            self._actions = names
        else:
            self._contexts = names

    def _is_row(self, what: str) -> bool:
        """Whether these are the named rows of features: the family knows nothing of them."""
        return self._names_of(what) is not None and self._family.nameable[what] is None

    def _add_row(self, names: Any, cost: Any) -> int:
        if cost is not None or self._family.prices.size > 1:
            raise InvalidInput("rows of features cannot be added where each has its own cost: make a new agent")
        return len(names) - 1

    def _changed(self, what: str, number: int) -> Any:
        """The family may have another learner and another memory now; the name of what was changed."""
        self.learner = self._family.learner
        self.ledger.attach(self._family.account)
        return self.action_name(number) if what == "actions" else self.context_name(number)
