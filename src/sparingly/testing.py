"""A checker for learners and rules of your own: it tests the contract that all of ours keep.

    from sparingly.testing import check_learner, check_rule

    def test_my_rule():
        check_rule(MyRule())

Both raise `ContractBroken`, with the scenario that broke the contract, or return nothing.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.agent import Agent
from sparingly.episodic.ucbvi import UCBVI
from sparingly.errors import ContractBroken
from sparingly.linear.oful import OFUL
from sparingly.protocol import Decision, State
from sparingly.rules import Always, BalancedMatching, ExactMatching, Greedy, Never, PaperMatching
from sparingly.settings import family_for

Integers = NDArray[np.int64]
Step = tuple[Any, float]  # context, and what is granted before the round

_MORE_LEARNERS = {"linear": OFUL(3), "episodic": UCBVI(3, 2, 3, scale=0.1)}  # what rules are checked with, beside arms


@dataclasses.dataclass(frozen=True)
class Scripted:
    """A learner that plays what a script says, so that tests meet the worst choice of arms, too."""

    arms: int
    contexts: int = 1
    costs: Any = None
    pattern: str = "cycle"  # through all arms evenly; or "random"; or "first"

    def start(self) -> State:
        return {"answers": np.zeros(1, dtype=np.int64)}

    def choose(self, state: State, context: int, round: int, random: np.random.Generator) -> int:
        if self.pattern == "random":
            return int(random.integers(self.arms))
        return (round - 1) // self.contexts % self.arms if self.pattern == "cycle" else 0

    def learn(self, state: State, context: int, action: int, reward: float) -> None:
        state["answers"] += 1


def check_rule(
    rule: Any, rounds: int = 120, seed: int = 0, guarded: bool = False, settings: Sequence[str] = ("tabular",)
) -> None:
    """Check a rule: it never asks for what the budget cannot pay, and it survives everything an agent goes through.

    `guarded` allows refusals by the ledger, for rules that rely on it (the budget is still never exceeded). `settings`
    are those in which to check it: "tabular", "linear", "episodic".
    """
    if "tabular" in settings:
        _check_on_arms(rule, rounds, seed, guarded)
    for name, learner in _MORE_LEARNERS.items():
        if name in settings:
            agent = _agent(learner, rule, seed)
            random = np.random.default_rng(seed)
            script = [(_some_context(learner, random), float(random.random() < 0.4) * 3.0) for _ in range(rounds)]
            for t, _ in enumerate(_play(agent, script, _prompt), start=1):
                if agent.ledger.spent > agent.ledger.granted or (agent.ledger.refused and not guarded):
                    raise ContractBroken(f"{rule!r} with {learner!r}, round {t}: the ledger refused ({agent.ledger!r})")
            _check_agents(partial(_agent, learner, rule), (type(rule),), rounds, seed)


def _check_on_arms(rule: Any, rounds: int, seed: int, guarded: bool) -> None:
    for name, learner, script in _scenarios(rounds, seed):
        agent = _agent(learner, rule, seed)
        for t, decision in enumerate(_play(agent, script, _prompt), start=1):
            ledger = agent.ledger
            where = f"{rule!r} in scenario {name}, round {t}"
            if ledger.spent > ledger.granted:
                raise ContractBroken(f"{where}: spent {ledger.spent:g} of {ledger.granted:g}")
            if ledger.refused and not guarded:
                cell = f"action {decision.action}, asked {agent.asked.ravel().tolist()}"
                raise ContractBroken(
                    f"{where}: wanted to ask with {ledger.left:g} left of {ledger.granted:g} ({cell}); "
                    "the ledger refused. A safe rule never needs that; pass guarded=True for one that relies on it"
                )
    learner = Scripted(arms=3, contexts=2, pattern="random")
    _check_agents(partial(_agent, learner, rule), (type(rule), Scripted), rounds, seed)


def check_learner(learner: Any, rounds: int = 120, seed: int = 0) -> None:
    """Check a learner under every rule: valid actions, late answers, saving, and reproducible randomness.

    A learner for arms, for features or for episodes, in plain Python or compiled.
    """
    state = _attempt(f"{learner!r}.start()", learner.start) if hasattr(learner, "start") else {}
    if not isinstance(state, dict) or not all(isinstance(part, np.ndarray) for part in state.values()):
        raise ContractBroken(f"{type(learner).__name__}.start() must return a dict of numpy arrays, not {state!r}")
    if hasattr(learner, "choose") and hasattr(learner, "arms"):
        _check_choosing(learner, state, rounds, seed)
    for rule in (BalancedMatching(), ExactMatching(), PaperMatching(), Greedy(policies=2), Always(), Never()):
        _check_agents(partial(_agent, learner, rule), (type(learner),), rounds, seed)


def _check_choosing(learner: Any, state: State, rounds: int, seed: int) -> None:
    """Choosing must leave the state alone, however much was learned before."""
    random = np.random.default_rng(seed)
    for t in range(1, rounds + 1):
        u, before = int(random.integers(learner.contexts)), {name: part.copy() for name, part in state.items()}
        action = _attempt(f"{learner!r}.choose", learner.choose, state, u, t, random)
        if any(not np.array_equal(part, state[name]) for name, part in before.items()):
            raise ContractBroken(f"{type(learner).__name__}.choose must not change the state (it did in round {t})")
        if isinstance(action, int | np.integer) and 0 <= action < learner.arms:
            _attempt(f"{learner!r}.learn", learner.learn, state, u, int(action), float(random.random()))
        if not all(isinstance(part, np.ndarray) for part in state.values()):
            raise ContractBroken(f"{type(learner).__name__}.learn must keep the state a dict of numpy arrays")


def _agent(learner: Any, rule: Any, seed: int) -> Agent:
    agent: Agent = _attempt(f"an agent with {learner!r} and {rule!r}", Agent, learner, rule, budget=0.0, seed=seed)
    return agent


def _attempt(what: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return call(*arguments, **named)
    except ContractBroken:
        raise
    except Exception as error:
        raise ContractBroken(f"{what} failed: {type(error).__name__}: {error}") from error


def _scenarios(rounds: int, seed: int) -> Iterator[tuple[str, Scripted, list[Step]]]:
    """Shapes, costs, arms and budgets that hurt: whole multiples of the total cost, and just below them."""
    random = np.random.default_rng(seed)
    shapes = ((1, 1), (2, 2), (3, 4))
    for contexts, arms in shapes:
        cells = contexts * arms
        for costs_name, costs in (
            ("unit costs", None),
            ("whole costs", random.integers(1, 4, (contexts, arms)).astype(float)),
            ("fractional costs", random.uniform(0.05, 1.5, (contexts, arms)).round(3)),
            ("some free", random.integers(0, 2, (contexts, arms)).astype(float)),
        ):
            total = float(cells if costs is None else costs.sum())
            for pattern in ("cycle", "random", "first"):
                learner = Scripted(arms, contexts, None if costs is None else costs.tolist(), pattern)
                for budget_name, grants in _grants(rounds, total, random):
                    script = [(t % contexts, grant) for t, grant in enumerate(grants)]
                    yield f"{contexts}×{arms}, {costs_name}, {pattern} arms, {budget_name}", learner, script


def _grants(rounds: int, total: float, random: np.random.Generator) -> Iterator[tuple[str, list[float]]]:
    """What is granted before each round, in ways that nobody would wish for."""
    nothing = [0.0] * rounds
    yield "no budget", nothing
    for k in (1, 3):
        yield f"{k} × the total cost at once", [k * total, *nothing[1:]]
        for less in (1.0, 1e-3, 1e-6):
            yield f"{less:g} below {k} × the total cost", [max(k * total - less, 0.0), *nothing[1:]]
    yield "one unit now and then", [float(x) for x in random.random(rounds) < 0.3]
    yield "bursts", [float(x) * random.uniform(0, 2 * total) for x in random.random(rounds) < 0.05]


class _Path(NamedTuple):
    """The states that an episode will pass, (H,)."""

    states: Integers


def _episode(agent: Agent, path: _Path) -> Decision:
    """A whole episode as one decision: the number that its policy and its asks make up."""
    policy = agent.plan()
    actions = policy[np.arange(path.states.size), path.states]
    asks = agent.decide_episode(path.states, actions)
    number = int("".join(str(int(part)) for part in (*policy.ravel(), *asks)))
    return Decision(agent.decisions, number, bool(asks.any()), 0.0, 0.0)


def _prompt(agent: Agent, decision: Decision, random: np.random.Generator) -> None:
    for awaited in agent.awaited:
        agent.observe(awaited, float(random.random()))


def _late(agent: Agent, decision: Decision, random: np.random.Generator) -> None:
    """Answers come late, out of order, or never."""
    while agent.awaited and random.random() < 0.4:
        agent.observe(agent.awaited[int(random.integers(len(agent.awaited)))], float(random.random()))


def _play(agent: Agent, script: list[Step], answer: Callable[..., None], seed: int = 0) -> Iterator[Decision]:
    random = np.random.default_rng(seed)
    for context, grant in script:
        if grant > 0:
            agent.grant(grant)
        if isinstance(context, _Path):
            decision: Decision = _attempt("an episode", _episode, agent, context)
        else:
            decision = _attempt("decide", agent.decide, context=context)
        yield decision
        _attempt("observe", answer, agent, decision, random)


def _check_agents(make: Callable[[int], Agent], types: tuple[type, ...], rounds: int, seed: int) -> None:
    """Same seed, same decisions; late answers do no harm; a saved agent goes on as if nothing had happened."""
    random = np.random.default_rng(seed)
    learner = make(seed).learner
    script = [(_some_context(learner, random), float(random.random() < 0.5)) for _ in range(rounds)]
    for answer in (_prompt, _late):
        first, second = make(seed), make(seed)
        kept = [_essence(d) for d in _play(first, script, answer)]
        if kept != [_essence(d) for d in _play(second, script, answer)]:
            raise ContractBroken(f"{first!r}: the same seed gave different decisions")
        if first.ledger.spent > first.ledger.granted:
            raise ContractBroken(f"{first!r}: more was spent than granted")
        _check_saving(make(seed), types, script, answer)


def _some_context(learner: Any, random: np.random.Generator) -> Any:
    """A context that fits the learner: a number, features of as many actions as it has costs, the states to pass."""
    setting = family_for(learner).setting
    if setting == "tabular":
        return int(random.integers(learner.contexts))
    if setting == "episodic":
        return _Path(random.integers(learner.states, size=learner.horizon))
    features = random.normal(size=(3 if learner.costs is None else len(learner.costs), learner.dim))
    longest = getattr(learner, "length", 1.0) * random.random()
    return features * (longest / np.linalg.norm(features, axis=1, keepdims=True))


def _check_saving(agent: Agent, types: tuple[type, ...], script: list[Step], answer: Callable[..., None]) -> None:
    middle = len(script) // 2
    for _ in _play(agent, script[:middle], answer):
        pass
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.json"
        _attempt(f"saving {agent!r}", agent.save, path)
        loaded = _attempt(f"loading {agent!r}", Agent.load, path, types=types)
    here = [_essence(d) for d in _play(agent, script[middle:], answer, seed=1)]
    if here != [_essence(d) for d in _play(loaded, script[middle:], answer, seed=1)]:
        raise ContractBroken(f"{agent!r}: after saving and loading it decides differently")


def _essence(decision: Decision) -> tuple[Any, ...]:
    return (decision.id, decision.action, decision.ask, repr(decision.width), repr(decision.threshold))
