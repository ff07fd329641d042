"""What learners, rules, budgets and paths do, as digests: `python -m tests.frozen.trajectories` writes them anew.

The files beside this one were written by version 0.1.0. They are written anew only when a change of behaviour is meant.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import sparingly as sp

FOLDER = Path(__file__).parent
DIGESTS = FOLDER / "trajectories.json"
SAVED = FOLDER / "saved"

OLD = {"explore": "always"}  # what rules of 0.1.0 did; ties went to the lowest index unless one said otherwise
RULES = (
    sp.Always(**OLD), sp.Never(**OLD), sp.Greedy(), sp.Greedy(policies=3), sp.PaperMatching(), sp.ExactMatching(**OLD),
    sp.Matching(alpha=1.0, beta=0.5, **OLD), sp.Matching(alpha=0.4, beta=0.7, **OLD),
)  # fmt: skip
BUDGETS = (
    sp.budgets.Linear(0.3), sp.budgets.Polynomial(0.7, 3.0), sp.budgets.Fixed(100), sp.budgets.Fixed(np.inf),
    sp.budgets.Late(60, start=50), sp.budgets.Periodic(20, every=30), sp.budgets.Bernoulli(0.4),
    sp.budgets.Sequence(np.cumsum(np.arange(400) % 3 == 0)),
)  # fmt: skip
COSTS = [[0.1, 0.7], [0.0, 1.0], [2.0, 1.0]]
ARMS = {
    "bernoulli": (sp.problems.Arms([0.3, 0.5, 0.6]), {}),
    "beta, costs": (sp.problems.ContextualArms([[0.3, 0.5], [0.9, 0.1], [0.5, 0.5]], costs=COSTS, rewards="beta"), {}),
    "trap": (sp.problems.greedy_trap("contexts").problem, {"ties": "random", "scale": 0.3}),
}
FEATURES = {
    "fixed set": (np.eye(3).tolist(), {}),
    "sphere": (sp.features.Sphere(5), {"radius": "simple", "ties": "random"}),
    "costs": (sp.features.Sphere(4), {"costs": [0.5, 0.0, 1.0, 2.0]}),
    "equal costs": (np.eye(3).tolist(), {"costs": [2.0, 2.0, 2.0], "scale": 0.2}),
}
EPISODES = {
    "random": (sp.problems.random_mdp(4, 2, 3, seed=1), {"scale": 0.1}),
    "chain, ties": (sp.problems.chain(5), {"scale": 0.05, "ties": "random", "rewarding": 3}),
}
PATHS = ("fast", "plain", "agent")


def digest(*parts: Any) -> str:
    """A short hash; floats count with nine digits, so that another processor may round otherwise."""
    text = "\n".join(",".join(f"{x:.9g}" for x in np.asarray(part, dtype=float).ravel()) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def simulated(problem: Any, learner: Any, rule: Any, budget: Any, path: str, rounds: int) -> str:
    """One simulation, recorded often."""
    marks = sorted({*range(1, 40), *range(40, rounds, 37), rounds})
    r = sp.simulate(problem, learner, rule, budget, rounds=rounds, runs=2, seed=3, checkpoints=marks, path=path)
    return digest(r.regret, r.asked, r.spent, np.nan_to_num(r.budget, posinf=-1.0), r.refused, r.plays)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Thompson sampling, as a user would write it in plain Python."""

    arms: int
    contexts: int = 1
    costs: Any = None

    def start(self) -> dict[str, Any]:
        return {"wins": np.ones((self.contexts, self.arms)), "losses": np.ones((self.contexts, self.arms))}

    def choose(self, state: Any, context: int, round: int, random: np.random.Generator) -> int:
        return int(np.argmax(random.beta(state["wins"][context], state["losses"][context])))

    def learn(self, state: Any, context: int, action: int, reward: float) -> None:
        state["wins"][context, action] += reward
        state["losses"][context, action] += 1.0 - reward


@dataclasses.dataclass(frozen=True)
class Wide:
    """A rule in plain Python that looks at everything a question has."""

    explore: ClassVar[str] = "always"

    def asks(self, question: sp.Question) -> bool:
        left = question.budget - question.spent
        return left >= question.cost and question.width * (1 + question.asked % 3) > 2.0 and question.round % 5 > 0


def said(rule: Any) -> str:
    """A rule as 0.1.0 wrote it."""
    return repr(rule).replace(", explore='always'", "").replace("explore='always'", "")


def tabular_parts() -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, problem, learner and rule."""
    for name, (problem, options) in ARMS.items():
        contexts, arms = problem.shape
        for make, rule in itertools.product((sp.UCB1, sp.MOSS), RULES):
            learner = make(arms, contexts, **{"ties": "first"} | options)
            yield f"{make.__name__} {name} {said(rule)}", problem, learner, rule
        for rule in (sp.ExactMatching(**OLD), sp.Greedy(policies=2), Wide()):
            yield f"Sampling {name} {said(rule)}", problem, Sampling(arms, contexts), rule
        yield f"UCB1 {name} Wide", problem, sp.UCB1(arms, contexts, **{"ties": "first"} | options), Wide()


def linear_parts() -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, problem, learner and rule."""
    for (name, (arms, options)), rule in itertools.product(FEATURES.items(), RULES):
        if not (options.get("costs") and isinstance(rule, sp.PaperMatching)):
            problem = sp.problems.Linear([0.5, -0.3, 0.2], arms=arms, noise=0.1)
            yield f"OFUL {name} {said(rule)}", problem, sp.OFUL(3, **{"ties": "first"} | options), rule


def episodic_parts() -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, problem, learner and rule."""
    for (name, (problem, options)), make, rule in itertools.product(EPISODES.items(), (sp.UCBVI, sp.ULCVI), RULES):
        H, S, A = problem.shape
        yield f"{make.__name__} {name} {said(rule)}", problem, make(S, A, H, **{"ties": "first"} | options), rule


def simulations() -> Iterator[tuple[str, str]]:
    """Every learner × rule × budget, one digest for all three paths: they must agree."""
    settings = ((tabular_parts, 300), (linear_parts, 150), (episodic_parts, 60))
    for parts, rounds in settings:
        for name, problem, learner, rule in parts():
            for budget in BUDGETS:
                own = isinstance(learner, Sampling) or isinstance(rule, Wide)
                found = {simulated(problem, learner, rule, budget, path, rounds) for path in PATHS[-1 if own else 0 :]}
                assert len(found) == 1, f"{name} {budget}: the paths differ"
                yield f"{name} {budget}", found.pop()


def late_rounds(agent: sp.Agent, learner: Any, rounds: int, seed: int) -> list[float]:
    """Decisions, one by one, with answers that come late, out of order, or never; some asks are withdrawn."""
    random, seen = np.random.default_rng(seed), []
    for t in range(rounds):
        if random.random() < 0.3:
            agent.grant(float(random.integers(1, 6)))
        if isinstance(learner, sp.OFUL):
            features = random.normal(size=(4 if learner.costs is None else len(learner.costs), learner.dim))
            context: Any = features / np.linalg.norm(features, axis=1, keepdims=True)
        else:
            context = int(random.integers(learner.contexts))
        d = agent.decide(context=context)
        seen += [d.action, d.ask, d.width, min(d.threshold, 1e9)]
        if d.ask and t % 11 == 5:
            agent.withdraw(d.id)
        while agent.awaited and random.random() < 0.45:
            agent.observe(int(random.choice(agent.awaited)), float(random.random()))
    return [*seen, agent.ledger.spent, agent.ledger.refused, *agent.awaited]


def late_episodes(agent: sp.Agent, problem: Any, rounds: int, seed: int) -> list[float]:
    """The same for episodes: the states are drawn at random, whatever the model says."""
    random, seen = np.random.default_rng(seed), []
    H, S, _ = problem.shape
    for _ in range(rounds):
        if random.random() < 0.5:
            agent.grant(float(random.integers(1, 6)))
        policy = agent.plan()
        states = random.integers(S, size=H)
        actions = policy[np.arange(H), states]
        seen += [*policy.ravel(), *agent.decide_episode(states, actions)]
        while agent.awaited and random.random() < 0.7:
            agent.observe(agent.awaited[int(random.integers(len(agent.awaited)))], float(random.random()))
    return [*seen, *agent.widths.ravel(), *agent.best_guess().ravel(), agent.ledger.spent, agent.ledger.refused]


def agents() -> Iterator[tuple[str, sp.Agent, Any]]:
    """A fresh agent of every kind, with the function that plays some rounds: (rounds, seed) → what was seen."""
    for name, problem, learner, rule in tabular_parts():
        made = sp.Agent(learner, rule, budget=5, seed=7, costs=problem.costs)
        yield name, made, lambda agent, n, seed, learner=learner: late_rounds(agent, learner, n, seed)
    for name, _, learner, rule in linear_parts():
        made = sp.Agent(learner, rule, budget=sp.budgets.Linear(0.4), seed=7)
        yield name, made, lambda agent, n, seed, learner=learner: late_rounds(agent, learner, n, seed)
    for name, problem, learner, rule in episodic_parts():
        made = sp.Agent(learner, rule, budget=5, seed=7)
        yield name, made, lambda agent, n, seed, problem=problem: late_episodes(agent, problem, n, seed)


def decisions() -> Iterator[tuple[str, str]]:
    """The decisions of every kind of agent, with late answers."""
    for name, agent, play in agents():
        yield f"late {name}", digest(play(agent, 120, 1))


def continued(agent: sp.Agent, play: Any) -> str:
    """What a saved agent does after it was loaded."""
    return digest(play(agent, 40, 2))


def saved_agents() -> Iterator[tuple[str, sp.Agent, Any]]:
    """Some of the agents, in the middle of their lives: one of each learner and rule."""
    seen = set()
    for name, agent, play in agents():
        kind = (type(agent.learner), said(agent.rule), agent.learner.costs is None)
        if kind not in seen and "Matching(alpha=0.4" not in name:
            seen.add(kind)
            play(agent, 60, 1)
            yield name, agent, play


def file_of(name: str) -> Path:
    """Where an agent of 0.1.0 is kept."""
    return SAVED / ("".join(c if c.isalnum() else "_" for c in name) + ".json")


def main() -> None:
    """Write digests and files."""
    found = dict(simulations()) | dict(decisions())
    for name, agent, play in saved_agents():
        agent.save(file_of(name))
        found[f"saved {name}"] = continued(agent, play)
    DIGESTS.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    print(f"{len(found)} digests, {len(list(SAVED.iterdir()))} files")


if __name__ == "__main__":
    main()
