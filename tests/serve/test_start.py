"""A service whose code was never compiled: it is there at once, and no request waits for a compiler."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.serve.serving import call

SCRIPT = """
import sys, threading
from numba.core.dispatcher import Dispatcher
from sparingly import interpreter
compile_one = Dispatcher.compile

def compile(self, sig):
    print("waited for", self.py_func.__qualname__, threading.current_thread().name, file=sys.stderr, flush=True)
    return compile_one(self, sig)

Dispatcher.compile = compile
interpreter.Soon.make_ready = lambda one, arguments: None  # the compiler in the background never ends
from sparingly.cli import main
sys.argv = ["sparingly", "serve", "--port", "0"]
main()
"""

ASKS = {"type": "Always"}
AGENTS = {
    "arms": (
        {"learner": {"type": "UCB1"}, "actions": ["a", "b"], "contexts": ["x", "y"], "rule": ASKS},
        {"context": "x"},
    ),
    "greedy": ({"learner": {"type": "MOSS"}, "actions": ["a", "b"], "rule": {"type": "Greedy"}}, {}),
    "rows": ({"learner": {"type": "OFUL", "dim": 2}, "rule": ASKS}, {"features": [[0.1, 0.2], [0.3, 0.4]]}),
}


def test_no_request_waits_for_a_compiler(tmp_path):
    settings = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "SPARINGLY_COMPILE": "behind"}
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=errors, text=True, env=settings, cwd=tmp_path
        )
        assert process.stdout is not None
        try:
            url = process.stdout.readline().split()[-1] + "/v1/agents"
            for name, (body, context) in AGENTS.items():
                assert call("PUT", f"{url}/{name}", body | {"budget": {"initial": 50}})[0] == 201
                for k in range(6):
                    decision = {"event_id": f"e{k}", "defer": k == 1, **context}
                    assert call("POST", f"{url}/{name}/decisions", decision)[1]["ask"]
                    assert call("GET", f"{url}/{name}/estimates")[0] == 200
                assert call("POST", f"{url}/{name}/decisions/e0/feedback", {"reward": 1})[0] == 200
                assert call("POST", f"{url}/{name}/decisions/e1/release", {})[0] == 200
                assert call("POST", f"{url}/{name}/grants", {"grant_id": "g", "amount": 5})[0] == 200
            change = {"add_actions": ["c"], "retire_actions": ["a"], "rule": {"type": "ExactMatching"}, "granted": 99}
            assert call("PATCH", f"{url}/arms", change)[0] == 200
            assert call("POST", f"{url}/arms/decisions", {"context": "y"})[1]["action"] in ("b", "c")
        finally:
            process.terminate()
            process.wait(timeout=30)
            process.stdout.close()
    assert "waited for" not in (tmp_path / "errors").read_text()
