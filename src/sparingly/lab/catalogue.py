"""The names that experiment files may use: learners, rules, budgets, contexts, rewards, problems.

A part is written as a name ("BalancedMatching"), as a name with parameters ("Matching(alpha=2)"), or as a table with
`type` and its parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sparingly import budgets, contexts, features, learners, problems, rules
from sparingly.errors import InvalidInput, SparinglyError
from sparingly.problems import rewards

Catalogue = Mapping[str, Callable[..., Any]]

LEARNERS: Catalogue = {learner.__name__: learner for learner in learners.LEARNERS}
RULES: Catalogue = {rule.__name__: rule for rule in rules.RULES}
BUDGETS: Catalogue = {
    budget.__name__: budget
    for budget in (
        budgets.Linear, budgets.Polynomial, budgets.Fixed, budgets.Late, budgets.Periodic, budgets.Bernoulli,
        budgets.Sequence, budgets.WhenContext,
    )
}  # fmt: skip
CONTEXTS: Catalogue = {source.__name__: source for source in (contexts.Iid, contexts.Given, contexts.WhenBudgetGrows)}
REWARDS: Catalogue = {kind.__name__: kind for kind in (*rewards.BY_NAME.values(),)}
FEATURES: Catalogue = {
    source.__name__: source
    for source in (
        features.Sphere, features.Gaussian, features.HalfSpaces, features.Rows, features.WhenBudgetGrows,
    )
}  # fmt: skip
PROBLEMS: Catalogue = {
    "Arms": problems.Arms,
    "ContextualArms": problems.ContextualArms,
    "greedy_trap": problems.greedy_trap,
    "Labels": problems.Labels,
    "Linear": problems.Linear,
    "linear_trap": problems.linear_trap,
    "hypercube": problems.hypercube,
    "hidden_arm": problems.hidden_arm,
    "Episodic": problems.Episodic,
    "random_mdp": problems.random_mdp,
    "river_swim": problems.river_swim,
    "chain": problems.chain,
    "grid": problems.grid,
    "deep_sea": problems.deep_sea,
    "episode_trap": problems.episode_trap,
}


def build(catalogue: Catalogue, what: str, described: Any, **extra: Any) -> Any:
    """Build one part from its entry in a file; `extra` parameters are passed on if the part takes them."""
    if isinstance(described, str):
        described = entry(described)
    if not isinstance(described, dict) or not isinstance(described.get("type"), str):
        choices = ", ".join(catalogue)
        raise InvalidInput(f"{what} must be a name or a table with `type`, one of {choices}; not {described!r}")
    parameters = {name: value for name, value in described.items() if name != "type"}
    kind = described["type"]
    if kind not in catalogue:
        raise InvalidInput(f"{what} has no type {kind!r}; choose one of {', '.join(catalogue)}")
    accepted = inspect.signature(catalogue[kind]).parameters
    unknown = [name for name in parameters if name not in accepted]
    if unknown:
        choices = ", ".join(accepted) or "nothing"
        raise InvalidInput(f"{what} {kind} does not take {', '.join(unknown)}; it takes {choices}")
    try:
        return catalogue[kind](**({k: v for k, v in extra.items() if k in accepted} | parameters))
    except SparinglyError as error:
        raise InvalidInput(f"{what} {kind}: {error}") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} {kind}: {error}; it takes {', '.join(accepted)}") from None


def entry(text: str) -> dict[str, Any]:
    """Parse a name with parameters in parentheses into an entry of the catalogue.

    >>> entry("OFUL(scale=0.3, radius=simple)")
    {'type': 'OFUL', 'scale': 0.3, 'radius': 'simple'}
    """
    name, _, inside = text.strip().partition("(")
    result: dict[str, Any] = {"type": name.strip()}
    for part in filter(None, (part.strip() for part in inside.rstrip(") ").split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InvalidInput(f"{text!r}: parameters are written name=value, not {part!r}")
        result[key] = _value(value)
    return result


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
