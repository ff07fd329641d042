"""The service inside the test's own process: its store and its clock are in hand, and nothing goes over a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from sparingly.serve.app import Service
from sparingly.serve.store import Store

AGENT = {"learner": {"type": "UCB1"}, "actions": ["a"], "rule": {"type": "Always"}, "budget": {"initial": 10}}


class Inside:
    """A service and a client of it."""

    def __init__(self, service: Service, client: httpx.AsyncClient) -> None:
        self.service, self.client = service, client

    async def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Any call; below /v1/agents unless the path begins with a slash."""
        place = path if path.startswith("/") else f"/v1/agents/{path}"
        return await self.client.request(method, place, **({} if body is None else {"json": body}))

    async def put(self, name: str, **other: Any) -> None:
        """Make an agent that asks whenever its ten units allow."""
        answer = await self.call("PUT", name, AGENT | other)
        assert answer.status_code == 201, answer.text

    async def decide(self, name: str, event_id: str, **other: Any) -> httpx.Response:
        return await self.call("POST", f"{name}/decisions", {"event_id": event_id, **other})

    async def budget(self, name: str) -> dict[str, float]:
        """{"granted", "spent", "held", "left"} as they are stored."""
        return (await self.call("GET", name)).json()["budget"]


@asynccontextmanager
async def inside(store: Store, **options: Any) -> AsyncIterator[Inside]:
    """Open the store, and run a service over it until the end of the block."""
    store.open()
    service = Service(store, **options)
    await service.start()
    transport = httpx.ASGITransport(service)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
        try:
            yield Inside(service, client)
        finally:
            await service.stop()
