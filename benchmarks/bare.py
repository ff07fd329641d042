"""The least that a durable service can do: an ASGI application with one group-committed insert for each request.

It reads the body, adds it to a table of SQLite (WAL, synchronous FULL), and answers when the transaction with the rows
of all who came meanwhile is on disk. The service is measured against it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn

from sparingly.serve.run import bind

HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"11")]


class Bare:
    """Insert, wait for the disk, answer."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self.waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self.wake = asyncio.Event()
        self.pool = ThreadPoolExecutor(1)

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self.task = asyncio.create_task(self.work())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.task.cancel()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = (await receive())["body"]
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((body, done))
        self.wake.set()
        await done
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b'{"ok":true}'})

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.wake.wait()
            self.wake.clear()
            batch, self.waiting = self.waiting, []
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany("INSERT INTO rows (body) VALUES (?)", [(body,) for body, _ in batch])
            await loop.run_in_executor(self.pool, self.connection.execute, "COMMIT")
            for _, done in batch:
                done.set_result(None)


async def main(folder: Path) -> None:
    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        Bare(folder / "bare.sqlite"), lifespan="on", log_config=None, access_log=False, server_header=False,
        date_header=False,
    )  # fmt: skip
    print(f"bare: serving on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Path(sys.argv[1])))
