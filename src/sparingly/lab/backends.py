"""Backends that run the cells of a sweep: processes on this machine, dask or ray, all of them through joblib.

Open a backend in a `with` block. A cluster that is started for it is shut down at the end; one that was up stays up.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparingly.errors import InvalidInput, MissingExtra, SparinglyError
from sparingly.validation import choice

PLACES = ("local", "dask", "ray")
PATIENCE = 10.0  # seconds to wait for an address to answer
ADVICE = (
    "wants its token: set RAY_AUTH_MODE=token, and put the token (there, `ray get-auth-token` shows it) into "
    "RAY_AUTH_TOKEN, into the file that RAY_AUTH_TOKEN_PATH names, or into ~/.ray/auth_token"
)


class WorkerDied(Exception):
    """A worker process died in the middle of its work, which has to be done again."""


@dataclass(frozen=True)
class Backend:
    """A joblib backend that is ready to use."""

    name: str  #: in joblib
    jobs: int  #: -1: as many as the cluster has
    deaths: tuple[type[BaseException], ...]  #: what it raises when a worker dies
    remote: bool = False  #: whether workers may run other code than this process

    def each(self, call: Callable[[Any], Any], items: Iterable[Any], apart: bool = False) -> Iterator[Any]:
        """Yield the results of `call` for all items, as they finish; with `apart`, never run it in this process."""
        import joblib

        jobs = max(self.jobs, 2) if apart and self.jobs > 0 else self.jobs  # joblib runs one job in this process
        try:
            with joblib.parallel_config(backend=self.name):
                parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
                yield from parallel(joblib.delayed(call)(item) for item in items)
        except self.deaths as error:
            raise WorkerDied(str(error)) from error
        except (OSError, CancelledError) as error:  # of the cluster: errors in cells come back as text
            raise SparinglyError(f"the cluster no longer answers ({error}); what is done is kept") from error


@contextmanager
def open_backend(on: str, address: str | None = None, jobs: int | None = None) -> Iterator[Backend]:
    """Open the backend that the options `--on`, `--address` and `--jobs` of `sparingly sweep` describe."""
    choice(on, "--on", PLACES)
    try:
        import joblib
    except ImportError:
        raise MissingExtra("a sweep", "lab") from None
    if address is not None and on == "local":
        raise InvalidInput("--address names a cluster: give --on dask or --on ray with it")
    if address is not None and jobs is not None:
        raise InvalidInput("--jobs is for workers started here; the cluster at --address has its own")
    if address is not None:
        _check_reachable(on, address)
    workers = jobs or joblib.cpu_count()
    if on == "local":
        yield Backend("loky", workers, (BrokenExecutor,))
    else:
        with (_dask if on == "dask" else _ray)(address, workers) as backend:
            yield backend


@contextmanager
def _dask(address: str | None, workers: int) -> Iterator[Backend]:
    try:
        from distributed import Client, LocalCluster
        from distributed.scheduler import KilledWorker
    except ImportError:
        raise MissingExtra("a sweep on dask", "dask") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # no need to report a dead worker: its cells run again
    if address is not None:
        try:
            client = Client(address, timeout=PATIENCE, set_as_default=True)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"no dask scheduler answers at {address}: {' '.join(str(error).split())}") from None
        with client:
            yield Backend("dask", -1, (KilledWorker,), remote=True)
        return
    with (
        tempfile.TemporaryDirectory() as scratch,
        LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0,
            local_directory=scratch, silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster),
    ):  # fmt: skip
        yield Backend("dask", -1, (KilledWorker,))


@contextmanager
def _ray(address: str | None, workers: int) -> Iterator[Backend]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", str(int(PATIENCE)))  # one a second
    if address is None or address.startswith(("127.", "localhost")):
        # Despite its name, this is what keeps ray on the loopback interface. It is read on import.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        import joblib
        import ray
        from ray.util.joblib.ray_backend import RayBackend
    except ImportError:
        raise MissingExtra("a sweep on ray", "ray") from None

    class Streaming(RayBackend):  # type: ignore[misc]  # mypy skips ray
        """Yields results as they finish; ray's own backend waits for the last one."""

        supports_return_generator = True

    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        ray.init("local", num_cpus=workers, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    else:
        try:
            with _captured_stderr() as noise:
                ray.init(address, **quiet)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            if "auth" in f"{error} {' '.join(noise)}".lower():
                raise InvalidInput(f"the ray cluster at {address} {ADVICE}") from None
            raise InvalidInput(f"no ray cluster answers at {address}: {' '.join(str(error).split())}") from None
    logging.getLogger("ray.util.multiprocessing.pool").setLevel(logging.ERROR)
    joblib.register_parallel_backend("ray", Streaming)
    try:
        yield Backend("ray", workers if address is None else -1, (ray.exceptions.RayError,), address is not None)
    finally:
        ray.shutdown()


@contextmanager
def _captured_stderr() -> Iterator[list[str]]:
    """Collect what C++ libraries write to stderr in a list, instead of showing it."""
    said: list[str] = []
    sys.stderr.flush()
    screen = os.dup(2)
    with tempfile.TemporaryFile() as noise:
        os.dup2(noise.fileno(), 2)
        try:
            yield said
        finally:
            sys.stderr.flush()
            os.dup2(screen, 2)
            os.close(screen)
            noise.seek(0)
            said.extend(noise.read().decode(errors="replace").splitlines())


def _check_reachable(what: str, address: str) -> None:
    """Fail early if nothing listens at the address: dask and ray take long to give up, and print a lot."""
    if address == "auto" and what == "ray":
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        example = "tcp://10.0.0.5:8786" if what == "dask" else "10.0.0.5:6379"
        raise InvalidInput(f"--address must be like {example}, not {address!r}")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE) as line:
            if what == "dask" and not address.startswith("tls") and not line.recv(1):  # a scheduler sends first
                raise ConnectionError("no scheduler")
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"nobody answers at {address} ({error}); is the {what} cluster up?") from None
