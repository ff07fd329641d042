"""What agents know after the same rounds, as digests: whether versions of numba, or processors, compute the same bits.

    python -m benchmarks.bits
    NUMBA_DISABLE_JIT=1 python -m benchmarks.bits
    pip install --target other 'numba<0.68' && PYTHONPATH=other NUMBA_CACHE_DIR=other/cache python -m benchmarks.bits

The log of the service is replayed to the last bit where the digests agree.
"""

from __future__ import annotations

import hashlib
import json

import numba
import numpy as np

import sparingly as sp

ROUNDS = 400
AGENTS = {
    "UCB1": lambda: sp.Agent(sp.UCB1(5), budget=100, seed=0),
    "MOSS": lambda: sp.Agent(sp.MOSS(5), budget=100, seed=0),
    "UCB1, Greedy": lambda: sp.Agent(sp.UCB1(5), rule=sp.Greedy(), budget=100, seed=0),
    "OFUL": lambda: sp.Agent(sp.OFUL(8), budget=100, seed=0),
}


def digest(kind: str) -> str:
    """Of the decisions, and of the memory of the agent after them."""
    random, agent, decisions = np.random.default_rng(5), AGENTS[kind](), []
    for _ in range(ROUNDS):
        context = random.uniform(-0.3, 0.3, (5, 8)) if kind == "OFUL" else None
        decision = agent.decide() if context is None else agent.decide(context)
        decisions.append([decision.action, decision.ask, decision.width])
        if decision.ask:
            agent.observe(decision.id, random.random())
    known = json.dumps(decisions).encode() + agent._family.words.tobytes()
    return hashlib.sha256(known).hexdigest()[:16]


if __name__ == "__main__":
    print("numba", numba.__version__, *(f"{kind} {digest(kind)}" for kind in AGENTS), sep="\n")
