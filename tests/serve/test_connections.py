"""What a connection may take before it has shown a token: bytes, time, and a place among the others."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from urllib.parse import urlsplit

import httpx
import pyarrow.parquet
import pytest

import sparingly as sp
from sparingly import errors
from sparingly.serve import export, queries
from sparingly.serve.app import Service
from sparingly.serve.connections import Connections, Limits, peer_of
from sparingly.serve.run import Server, bind
from sparingly.serve.sqlite import SqliteStore
from tests.serve.inside import inside
from tests.serve.serving import call, running

TOKEN = "a-token-of-thirty-two-characters"
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /v1/agents/a/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
AWAITED = POST + b"authorization: Bearer %s\r\ntransfer-encoding: chunked\r\n\r\n" % TOKEN.encode()


@asynccontextmanager
async def listening(folder, **limits) -> AsyncIterator[tuple[Service, int]]:
    """A service with a token and small limits, on a port of this process."""
    opened = SqliteStore(folder / "data")
    opened.open()
    service = Service(opened, TOKEN, connections=Connections(Limits(**limits)))
    server = Server(service, bind("127.0.0.1", 0))
    task = asyncio.create_task(server.run_until_stopped())
    try:
        yield service, server.listening.getsockname()[1]
    finally:
        server.stop()
        await task


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side hangs up."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := await reader.read(65_536):
            got += piece
    return got


async def flood(writer: asyncio.StreamWriter, piece: bytes, most: int) -> int:
    """Send until the other side hangs up; how many bytes it took."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < most:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
    return sent


def run(scenario) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


# Bytes.


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\n", b"x-%s: b\r\n" % (b"a" * 1_000)),
        (b"GET / HTTP/1.1\r\nx: ", b"a" * 1_000),
        (b"GET /", b"a" * 1_000),
        (CHUNKED + b"0\r\n", b"x-%s: b\r\n" % (b"a" * 1_000)),
        (AWAITED + b"0\r\n", b"x-%s: b\r\n" % (b"a" * 1_000)),
        (AWAITED + b"0\r\nx: ", b"a" * 1_000),
        (AWAITED + b"1;", b"a" * 1_000),
    ],
    ids=["headers", "a header", "a path", "trailers after the answer", "trailers", "a trailer", "an extension"],
)
def test_what_never_ends_is_hung_up_on(tmp_path, begin, piece):
    async def scenario() -> None:
        async with listening(tmp_path) as (service, port), connected(port) as (_, writer):
            writer.write(begin)
            await writer.drain()
            assert await flood(writer, piece, 50_000_000) < 10_000_000  # what the system itself keeps is no more
            assert service.connections.refused["too_large"] == (not begin.startswith(CHUNKED))

    run(scenario())


def test_trailers_are_no_headers(tmp_path):
    async def scenario() -> None:
        async with listening(tmp_path) as (_, port), connected(port) as (reader, writer):
            head = (
                b"GET /v1/agents HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
            )
            writer.write(head + b"0\r\nauthorization: Bearer %s\r\n\r\n" % TOKEN.encode())
            assert b" 401 " in await answer(reader)

    run(scenario())


def test_a_body_of_tiny_chunks_is_read(tmp_path):
    async def scenario() -> None:
        async with listening(tmp_path) as (_, port), connected(port) as (reader, writer):
            head = POST + b"transfer-encoding: chunked\r\nconnection: close\r\nauthorization: Bearer %s\r\n\r\n"
            writer.write(head % TOKEN.encode())
            await flood(writer, b"1\r\n \r\n" * 1_000, 600_000)
            writer.write(b"2\r\n{}\r\n0\r\n\r\n")
            assert b" 404 " in await answer(reader)  # there is no such agent, which only who has read the body says

    run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"", b" 401 "),
        (b"authorization: Bearer %s\r\n" % TOKEN.encode(), b" 413 "),
    ],
)
@pytest.mark.parametrize("framing", [b"content-length: 300000000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"])
def test_a_body_that_is_not_wanted_is_not_swallowed(tmp_path, headers, status, framing):
    """The answer comes at once, and the caller can read it; then the connection ends."""

    async def scenario() -> None:
        async with listening(tmp_path) as (_, port), connected(port) as (reader, writer):
            writer.write(POST + headers + framing)
            piece = b"x" * 65_536 if b"length" in framing else b"10000\r\n" + b"x" * 65_536 + b"\r\n"
            sending = asyncio.create_task(flood(writer, piece, 300_000_000))
            got = await reader.readuntil(b"\r\n\r\n")
            assert status in got and b"connection: close" in got
            assert await sending < 20_000_000

    run(scenario())


@pytest.mark.parametrize("path", [b"pause", b"grants", b"decisions/e/feedback"])
def test_small_requests_have_small_bodies(tmp_path, path):
    async def scenario() -> None:
        async with listening(tmp_path) as (_, port), connected(port) as (reader, writer):
            request = POST.replace(b"decisions", path) + b"authorization: bearer  %s\r\ncontent-length: %d\r\n\r\n"
            writer.write(request % (TOKEN.encode(), 16_385))
            assert b" 413 " in await reader.readuntil(b"\r\n\r\n")

    run(scenario())


# Time.


HALF_A_BODY = AWAITED.replace(b"transfer-encoding: chunked", b"content-length: 9") + b"{"


@pytest.mark.parametrize(
    "begin", [b"", b"G", GET[:-2], HALF_A_BODY, AWAITED + b"1\r\n"],
    ids=["nothing", "a letter", "half a head", "half a body", "half a chunk"],
)  # fmt: skip
def test_who_takes_too_long_is_hung_up_on(tmp_path, begin):
    async def scenario() -> None:
        limits = {"head_seconds": 0.05, "body_seconds": 0.05}
        async with listening(tmp_path, **limits) as (service, port), connected(port) as (reader, writer):
            writer.write(begin)
            assert await answer(reader) == b""
            assert service.connections.refused["too_slow"] == 1

    run(scenario())


# How many.


def test_who_waits_longest_makes_room(tmp_path):
    """Half-sent requests keep nobody out, be they from one address."""

    async def scenario() -> None:
        async with listening(tmp_path, connections=8) as (service, port), contextlib.AsyncExitStack() as stack:
            halves = [await stack.enter_async_context(connected(port)) for _ in range(20)]
            for _, writer in halves:
                writer.write(GET[:-2])
            async with connected(port) as (reader, writer):
                writer.write(GET)
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            assert len(service.connections) <= service.connections.limits.per_peer == 4
            assert await answer(halves[0][0]) == b""
            assert service.connections.refused["crowded_out"] >= 16

    run(scenario())


def test_counts_return_to_nothing(tmp_path):
    async def scenario() -> None:
        async with listening(tmp_path) as (service, port):
            for _ in range(5):
                async with connected(port) as (reader, writer):
                    for _ in range(3):
                        writer.write(GET)
                        await reader.readuntil(b"}")
            while len(service.connections):
                await asyncio.sleep(0.01)
            assert not service.connections._waiting and not service.connections._waiting_by_peer

    run(scenario())


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (None, ""), (("192.0.2.7", 1), "192.0.2.7"), (("2001:db8:1:2:3::4", 1), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 1), "fe80::/64"), (("::1", 1), "::/64"),
    ],
)  # fmt: skip
def test_whom_a_connection_counts_for(address, peer):
    assert peer_of(address) == peer


# What cannot be read.


def test_what_cannot_be_read_is_counted_and_not_logged(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    rubbish = (b"hello\r\n\r\n", b"GET /healthz\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 100)
    upgrade = GET[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    with running("--data", str(tmp_path / "data"), "--token-file", str(tmp_path / "token")) as service:
        place = urlsplit(service.url)
        for text in (*rubbish, upgrade):
            with closing(socket.create_connection((place.hostname, place.port), timeout=30)) as stream:
                stream.sendall(text)
                got = stream.recv(65_536)
            if text is upgrade:
                assert got.startswith(b"HTTP/1.1 200")
            else:
                assert got.startswith(b"HTTP/1.1 400") and b"application/problem+json" in got
        status, _ = call("GET", f"{service.url}/v1/agents", token=TOKEN)
        assert status == 200
        assert service.complaints() == ""


# What breaks off.


def test_a_download_of_an_agent_that_is_deleted_does_not_end_as_if_it_were_complete(tmp_path, monkeypatch):
    """The connection breaks, so that callers notice; our client then finds that the agent is gone."""
    monkeypatch.setattr(queries, "CHUNK_BYTES", 100_000)
    count, body = 150, {"learner": {"type": "UCB1"}, "actions": ["a"]}

    async def scenario() -> None:
        async with listening(tmp_path) as (service, port):
            url = f"http://127.0.0.1:{port}"
            async with sp.AsyncClient(url, token=TOKEN) as client, httpx.AsyncClient(base_url=url) as plain:
                plain.headers["authorization"] = f"Bearer {TOKEN}"
                await client.create("agent", **body)
                for _ in range(count):
                    await client.decide("agent", payload="x" * 200_000)  # more than the system keeps on the way
                async with plain.stream("GET", "/v1/agents/agent/log") as download:
                    assert download.status_code == 200
                    ours = client.log("agent")
                    assert (await anext(ours))["seq"] == 0
                    await client.delete("agent")
                    while service.writer.deleted:
                        await asyncio.sleep(0.01)
                    with pytest.raises(httpx.RemoteProtocolError):
                        await download.aread()
                    with pytest.raises(errors.NotFound):
                        [line async for line in ours]

    run(scenario())


def test_an_export_keeps_some_payloads_in_memory_and_not_all(tmp_path, monkeypatch):
    """1,500 large payloads took more than a gigabyte. Each group of rows is written before the next one is read."""
    for module in (export, queries):
        monkeypatch.setattr(module, "CHUNK_BYTES", 1_000)

    async def check() -> None:
        async with inside(SqliteStore(tmp_path / "data")) as made:
            await made.put("one")
            for k in range(9):
                await made.decide("one", f"e{k}", payload="x" * 400)
            file = pyarrow.parquet.ParquetFile(io.BytesIO((await made.call("GET", "one/log?format=parquet")).content))
            sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
            assert sum(sizes) == 9 and max(sizes) <= 3

    asyncio.run(check())


def test_an_export_of_an_agent_that_is_being_deleted_is_refused(tmp_path):
    """Both kinds: what is left of its records is not its log."""

    async def scenario() -> None:
        made = SqliteStore(tmp_path / "data")
        async with inside(made) as driven:
            await driven.put("agent")
            for k in range(5):
                await driven.decide("agent", f"e{k}")
            made.run("DELETE FROM decisions WHERE seq = 3")
            for kind in ("jsonl", "parquet"):
                assert (await driven.call("GET", f"agent/log?format={kind}")).status_code == 503

    run(scenario())
