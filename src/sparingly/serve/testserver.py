"""Runs a temporary local service, for examples, notebooks, and tests of programs that use the client."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from sparingly.errors import SparinglyError


@contextmanager
def service(url: str | None = None) -> Iterator[str]:
    """Run a service in a temporary folder until the end of the block, and give its URL; a given `url` is passed on.

    >>> from sparingly import Client
    >>> with service() as url, Client(url) as client:
    ...     client.health().status
    'ok'
    """
    if url is not None:
        yield url
        return
    print("Starting a service (it compiles for some seconds the first time) …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sparingly.cli", "serve", "--data", folder, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 (a command of our own)
            assert process.stdout is not None
            try:
                line = process.stdout.readline()  # sparingly: serving on http://127.0.0.1:PORT
                if not line:
                    raise SparinglyError("the service did not start; its reason is above")
                yield line.split()[-1]
            finally:
                process.terminate()
