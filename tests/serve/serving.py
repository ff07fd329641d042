"""The service for tests: a process of its own, as `sparingly serve` starts it, and plain HTTP calls to it."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

ANNOUNCEMENT = "sparingly: serving on "
PATIENCE = 120.0  # seconds until it must be there: a busy machine may have to compile first


@dataclass
class Running:
    """A service that runs: where it is, its process, and what it says on stderr."""

    url: str
    process: subprocess.Popen[str]
    errors: IO[str]

    def complaints(self) -> str:
        """All that it has said on stderr so far."""
        self.errors.seek(0)
        return without_notices(self.errors.read())


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Run the service with these arguments, on a free port unless they name one; gives its address."""
    with running(*arguments) as service:
        yield service.url


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """The same for tests that need the process too; it may have ended by itself."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            url = _announced(lines)
            if url is None:
                _stop(process)
                errors.seek(0)
                raise AssertionError(f"the service did not start ({process.returncode}): {errors.read()[-4000:]}")
            yield Running(url, process, errors)
        finally:
            _stop(process)
            reader.join()
            process.stdout.close()


def without_notices(text: str) -> str:
    """What was said on stderr, but for the notice that something is compiled: a busy machine may need that long."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("sparingly: compiling "))


def command(*arguments: str) -> list[str]:
    """The command line of a service."""
    port = () if "--port" in arguments else ("--port", "0")
    return [sys.executable, "-m", "sparingly.cli", "serve", *arguments, *port]


def _read(output: IO[str], lines: queue.Queue[str]) -> None:
    """Take what the process says as it comes: a full pipe would stop it."""
    for line in output:
        lines.put(line)
    lines.put("")


def _announced(lines: queue.Queue[str]) -> str | None:
    """The address that the service prints once it answers; None if it ended, or took too long."""
    try:
        while line := lines.get(timeout=PATIENCE):
            if line.startswith(ANNOUNCEMENT):
                return line.removeprefix(ANNOUNCEMENT).strip()
    except queue.Empty:
        pass
    return None


def _stop(process: subprocess.Popen[str]) -> None:
    """End this one process, politely at first."""
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def call(method: str, url: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
    """Send JSON, or nothing; gives the status and the JSON that came back, also for refusals."""
    headers = {"content-type": "application/json"} if body is not None else {}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)
