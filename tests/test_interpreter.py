"""Nobody waits for a compiler: plain Python until the machine code is there, with the same decisions."""

from __future__ import annotations

import functools
import json
import os
import pty
import signal
import subprocess
import sys

import pytest

import sparingly as sp

pytestmark = pytest.mark.slow  # each test compiles in a process of its own

PLAY = """
import json, time
import numpy as np
import sparingly as sp
from sparingly import interpreter

def arms(agent, rounds):
    random = np.random.default_rng(0)
    for _ in range(rounds):
        d = agent.decide()
        yield d.id, d.index, d.ask, d.width, d.why
        if d.ask:
            agent.observe(d, float(random.random() < 0.3 + 0.2 * d.index))

def rows(agent, rounds):
    random = np.random.default_rng(1)
    for _ in range(rounds):
        X = random.normal(size=(4, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        d = agent.decide(X)
        yield d.id, d.index, d.ask, d.width, d.why
        if d.ask:
            agent.observe(d, float(X[d.index, 0]))

def episodes(agent, rounds):
    random = np.random.default_rng(2)
    for _ in range(rounds):
        policy, states = agent.plan(), random.integers(4, size=3)
        asks = agent.decide_episode(states, policy[range(3), states])
        yield policy.tolist(), asks.tolist()
        agent.observe_episode(np.where(asks, random.integers(2, size=3), np.nan))

def make():
    grows = sp.budgets.Linear(0.3)
    return {
        "UCB1": arms(sp.Agent(sp.UCB1(3, scale=0.3), budget=grows, seed=0), ROUNDS),
        "MOSS, Greedy": arms(sp.Agent(sp.MOSS(3), sp.Greedy(), budget=grows, seed=0), ROUNDS),
        "OFUL": rows(sp.Agent(sp.OFUL(3, scale=0.3), budget=grows, seed=0), ROUNDS),
        "UCBVI": episodes(sp.Agent(sp.UCBVI(4, 2, 3, scale=0.05), budget=grows, seed=0), ROUNDS // 4),
    }
"""


def run(code: str, compile: str = "behind") -> str:
    """The output of a process of its own, for which a warning is an error."""
    settings = os.environ | {"PYTHONWARNINGS": "error", "SPARINGLY_COMPILE": compile}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_decisions_are_the_same_before_and_after_the_switch():
    """Half of the rounds in plain Python, the compiler held up, the others compiled; and all of them compiled."""
    halves = (
        PLAY.replace("ROUNDS", "120")
        + """
import threading
held, make_ready = threading.Event(), interpreter.Soon.make_ready
interpreter.Soon.make_ready = lambda one, arguments: (held.wait(), make_ready(one, arguments))
playing, seen = make(), {}
for name, play in playing.items():
    seen[name] = [next(play) for _ in range(15 if name == "UCBVI" else 60)]
early = sum(one.ready for one in interpreter.made())
held.set()
while not all(one.ready for one in interpreter.made() if one.begun):
    time.sleep(0.01)
for name, play in playing.items():
    seen[name] += list(play)
print(json.dumps([early, seen]))
"""
    )
    whole = PLAY.replace("ROUNDS", "120") + "print(json.dumps({n: list(p) for n, p in make().items()}))"
    early, seen = json.loads(run(halves))
    assert early == 0
    assert seen == json.loads(run(whole, "first"))


def test_threads_share_an_agent_while_the_compiler_is_at_work():
    """8 threads × 20,000 decisions, begun in plain Python: the switch to compiled code comes while all of them play."""
    script = """
import threading
import sparingly as sp
from sparingly import interpreter

busy = [sp.Agent(learner, budget=9) for learner in (sp.UCBVI(2, 2, 2), sp.OFUL(2), sp.UCB1(2, contexts=3))]
agent, ids, early = sp.Agent(sp.UCB1(3), budget=50_000, seed=0), [[] for _ in range(8)], []
turn = next(one for one in interpreter.made() if one.function.py_func.__name__ == "decide")
held, make_ready = threading.Event(), interpreter.Soon.make_ready
interpreter.Soon.make_ready = lambda one, arguments: (held.wait(), make_ready(one, arguments))

def work(mine):
    for k in range(20_000):
        if k == 40:
            early.append(turn.ready)
            held.set()
        d = agent.decide()
        mine.append(d.id)
        if d.ask:
            agent.observe(d, True)

threads = [threading.Thread(target=work, args=(mine,)) for mine in ids]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(number for mine in ids for number in mine) == list(range(1, 160_001))
assert agent.ledger.spent == agent.asked.sum() == agent.answered.sum() <= 50_000
assert agent.ledger.refused == 0 and agent.awaited == ()
print(early[0], turn.ready)
"""
    assert run(script) == "False True\n"


def test_the_first_decision_comes_at_once(tmp_path):
    """Whatever an agent does, its caller's thread never calls the compiler, not even to load what is on disk."""
    spy = """
import threading
from numba.core.dispatcher import Dispatcher
compile_one, waited = Dispatcher.compile, []

def compile(self, sig):
    if threading.current_thread() is threading.main_thread():
        waited.append(self.py_func.__qualname__)
    return compile_one(self, sig)

Dispatcher.compile = compile
"""
    play = (
        PLAY.replace("ROUNDS", "4")
        + f"""
for play in make().values():
    next(play)
agent = sp.Agent(sp.UCB1(2), budget=5)
agent.withdraw(agent.decide())
agent.indices(), agent.threshold, agent.means, agent._repr_html_()
agent.save({str(tmp_path / "agent.json")!r})
sp.Agent.load({str(tmp_path / "agent.json")!r}).decide()
print(waited)
"""
    )
    assert run(spy + play) == "[]\n"


def test_a_process_says_why_it_does_not_end_yet_and_can_be_interrupted():
    script = """
import time
import sparingly as sp
from sparingly import interpreter

interpreter.PATIENCE = 0.1
interpreter.Soon.make_ready = lambda one, arguments: time.sleep(600)
sp.Agent(sp.UCB1(2), budget=5).decide()
print("done")
"""
    terminal, shown = pty.openpty()
    settings = os.environ | {"SPARINGLY_COMPILE": "behind"}
    command = [sys.executable, "-c", script]
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # in the background of a shell it is ignored
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=shown, preexec_fn=hear) as process:
        os.close(shown)
        told = b""
        while b"Ctrl-C" not in told:
            told += os.read(terminal, 1_000)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stdout.read() == b"done\n"
    os.close(terminal)
    assert told.startswith(b"sparingly: keeping compiled code")


def test_one_may_wait_for_the_compiler():
    code = PLAY.replace("ROUNDS", "4") + "next(make()['UCB1']); print(len(interpreter.made()))"
    assert run(code, "first") == "0\n"


def test_large_agents_wait():
    """Plain Python would take longer than the compiler."""
    assert sp.Agent(sp.UCB1(10), budget=1)._family.light
    assert not sp.Agent(sp.UCB1(100, contexts=100), budget=1)._family.light
    assert not sp.Agent(sp.OFUL(100), budget=1)._family.light
    assert not sp.Agent(sp.UCBVI(20, 5, 20), budget=1)._family.light
