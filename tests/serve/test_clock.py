"""A clock that is set wrong: time goes on by what has really passed, until the clock is right again or confirmed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from sparingly.serve.clock import GAP, SECOND, TOLERANCE, TrustedClock
from sparingly.serve.postgres import PostgresStore
from sparingly.serve.sqlite import FILE, SqliteStore
from sparingly.serve.store import Store
from tests.serve.inside import Inside, inside
from tests.serve.postgres import postgres

__all__ = ["postgres"]  # a fixture
DAY = 86_400
YEARS = 3_650 * DAY
START = 1_767_225_600  # 2026-01-01
GROWING = {"growth": {"by": "clock", "amount": 50, "every": DAY}}


class Clocks:
    """A clock that can be set, and a steady one that cannot: seconds pass for both of them."""

    def __init__(self) -> None:
        self.shown, self.passed = START * SECOND, 7 * SECOND

    def clock(self) -> int:
        return self.shown

    def steady(self) -> int:
        return self.passed

    def set_ahead(self, seconds: float) -> None:
        self.shown += round(seconds * SECOND)

    def pass_by(self, seconds: float) -> None:
        self.set_ahead(seconds)
        self.passed += round(seconds * SECOND)


def started(clocks: Clocks, stored: int | None = None) -> TrustedClock:
    clock = TrustedClock(clocks.clock, clocks.steady)
    clock.start(stored)
    return clock


# The clock by itself.


def test_it_follows_a_good_clock():
    clocks = Clocks()
    clock = started(clocks)
    for seconds in (0.001, 1, DAY, YEARS):
        clocks.pass_by(seconds)
        assert clock.now() == clocks.shown and not clock.held


def test_it_holds_a_clock_that_jumps():
    clocks = Clocks()
    clock = started(clocks)
    with capture_logs() as logs:
        clocks.set_ahead(YEARS)
        assert clock.now() == START * SECOND
        clocks.pass_by(DAY)
        assert clock.now() == (START + DAY) * SECOND
    assert clock.held and clock.jumps == 1 and clock.ahead == YEARS * SECOND
    assert [line["log_level"] for line in logs] == ["error"] and logs[0]["ahead_seconds"] == YEARS
    clocks.set_ahead(-YEARS)  # set right again
    assert clock.now() == clocks.shown and not clock.held and clock.ahead == 0


def test_many_small_steps_add_up_to_the_tolerance_at_the_most():
    clocks = Clocks()
    clock = started(clocks)
    for _ in range(1_000):
        clocks.pass_by(1)
        clocks.set_ahead(10)
        assert clock.now() - START * SECOND <= clocks.passed + TOLERANCE + 10 * SECOND
    assert clock.held


def test_clocks_that_drift_apart_are_no_jump():
    """A two-thousandth, for a month: 21 minutes in all."""
    clocks = Clocks()
    clock = started(clocks)
    for _ in range(30 * 24):
        clocks.pass_by(3_600)
        clocks.set_ahead(3_600 / 2_000)
        assert clock.now() == clocks.shown and not clock.held


def test_a_clock_that_went_back_may_come_back():
    """It is trusted up to where it would be if it had never gone, and not beyond."""
    clocks = Clocks()
    clock = started(clocks)
    clocks.set_ahead(-YEARS)
    assert clock.now() == clocks.shown and not clock.held
    clocks.pass_by(DAY)
    clocks.set_ahead(YEARS)
    assert clock.now() == clocks.shown == (START + DAY) * SECOND and not clock.held
    clocks.set_ahead(-YEARS)
    assert clock.now() == clocks.shown
    clocks.set_ahead(2 * YEARS)
    assert clock.now() == (START + DAY) * SECOND and clock.held


@pytest.mark.parametrize("back", [3_600, DAY, YEARS])
def test_a_process_that_starts_while_the_clock_is_back_holds_no_right_clock(back):
    """What was stored before, or meanwhile, says where the clock would be."""
    clocks = Clocks()
    first = started(clocks)
    clocks.set_ahead(-back)
    assert first.now() == clocks.shown
    stored = first.to_store()
    assert stored == START * SECOND
    second = started(clocks, stored)
    assert second.now() == clocks.shown and not second.held
    clocks.pass_by(5)
    clocks.set_ahead(back)
    assert second.now() == clocks.shown and not second.held
    third = started(clocks, stored)
    assert third.now() == clocks.shown and not third.held


@pytest.mark.parametrize(
    ("stored", "held"),
    [
        (None, False),
        (START * SECOND - GAP, False),
        (START * SECOND - GAP - 1, True),
        (-(START * SECOND - TOLERANCE), False),  # it was held when the last process ended
        (-(START * SECOND - TOLERANCE - 1), True),
        ((START + YEARS) * SECOND, False),
    ],
)
def test_what_is_trusted_at_a_start(stored, held):
    clocks = Clocks()
    clock = started(clocks, stored)
    assert clock.held == held
    assert clock.now() == (abs(stored) if held else clocks.shown)


# The service.


@pytest.fixture(params=["sqlite", "postgres"])
def make(request, tmp_path):
    """Makes stores on one database; on SQLite one after the other."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").url("clock")

    def made(clocks: Clocks) -> Store:
        if url is None:
            return SqliteStore(tmp_path, clocks.clock, clocks.steady)
        return PostgresStore(url, clocks.clock, clocks.steady)

    return made


def at(seconds: float) -> str:
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


async def confirm(made: Inside, seconds: float) -> tuple[int, Any]:
    answer = await made.call("POST", "/v1/clock/confirm", {"now": at(seconds)})
    return answer.status_code, answer.json()


async def granted(made: Inside, event: str) -> float:
    return (await made.decide("agent", event)).json()["budget"]["granted"]


def test_a_jump_grants_nothing_until_it_is_confirmed(make):
    async def scenario() -> None:
        clocks = Clocks()
        async with inside(make(clocks)) as made:
            await made.put("agent", budget=GROWING, lease=5)
            clocks.set_ahead(YEARS)
            clocks.pass_by(DAY)
            assert await granted(made, "e1") == 50
            assert await made.budget("agent") == {"granted": 50.0, "spent": 1.0, "held": 0.0, "left": 49.0}
            lease = (await made.decide("agent", "e2", defer=True)).json()
            assert lease["lease_expires_at"] == "2026-01-02T00:00:05.000000Z"
            told = (await made.call("GET", "/v1/clock")).json()
            assert told == {
                "now": "2026-01-02T00:00:00.000000Z", "clock": "2035-12-31T00:00:00.000000Z", "held": True,
                "ahead": float(YEARS),
            }  # fmt: skip
            metrics = (await made.call("GET", "/metrics")).text
            assert "sparingly_clock_jumps_total 1.0" in metrics and f"sparingly_clock_ahead {YEARS:.4e}" in metrics
            status, told = await confirm(made, DAY)  # by another watch it is not so late
            assert status == 409 and "2035" in told["detail"]
            assert await granted(made, "e3") == 50
            status, told = await confirm(made, YEARS + DAY)
            assert status == 200 and not told["held"] and told["now"] == told["clock"]
            assert await granted(made, "e4") == 50 * (3_650 + 1)
            assert "sparingly_clock_ahead 0.0" in (await made.call("GET", "/metrics")).text

    asyncio.run(scenario())


def test_a_clock_that_is_set_right_leaves_nothing_behind(make):
    async def scenario() -> None:
        clocks = Clocks()
        async with inside(make(clocks)) as made:
            await made.put("agent", budget=GROWING, lease=5)
            clocks.set_ahead(YEARS)
            clocks.pass_by(DAY)
            await granted(made, "e1")
            clocks.set_ahead(-YEARS)
            clocks.pass_by(DAY)
            assert await granted(made, "e2") == 100
            assert not (await made.call("GET", "/v1/clock")).json()["held"]
            await made.decide("agent", "e3", defer=True)
            clocks.pass_by(6)
            assert (await made.call("POST", "agent/decisions/e3/activate")).status_code == 409  # its lease has ended

    asyncio.run(scenario())


def test_a_restart_does_not_make_a_wrong_clock_right(make):
    async def scenario() -> None:
        clocks = Clocks()
        async with inside(make(clocks)) as made:
            await made.put("agent", budget=GROWING)
            clocks.pass_by(DAY)
            assert await granted(made, "e1") == 50
        clocks.pass_by(60)
        clocks.set_ahead(YEARS)
        for event in ("e2", "e3"):  # the second start knows that the clock is held, the first one finds out
            async with inside(make(clocks)) as made:
                assert await granted(made, event) == 50
                assert (await made.call("GET", "/v1/clock")).json()["held"]
        async with inside(make(clocks)) as made:
            assert (await confirm(made, YEARS + DAY + 60))[0] == 200
        async with inside(make(clocks)) as made:
            assert await granted(made, "e4") == pytest.approx(50 * (3_650 + 1), abs=1)

    asyncio.run(scenario())


def test_time_in_which_nothing_ran_counts_up_to_an_hour(make):
    async def scenario() -> None:
        clocks = Clocks()
        async with inside(make(clocks)) as made:
            await made.put("agent", budget={"growth": {"by": "clock", "amount": 60, "every": 3_600}})
        clocks.pass_by(3_600)
        async with inside(make(clocks)) as made:
            assert await granted(made, "e1") == 60
        clocks.pass_by(3_601)
        async with inside(make(clocks)) as made:
            assert await granted(made, "e2") == 60
            assert (await confirm(made, 7_201))[0] == 200
            assert await granted(made, "e3") == pytest.approx(120, abs=0.1)

    asyncio.run(scenario())


def test_processes_on_one_database_agree(postgres):
    """All hold the clock, also one that starts meanwhile; one confirmation counts for all."""
    url = postgres.url("clock")

    async def scenario() -> None:
        clocks = Clocks()
        stores = [PostgresStore(url, clocks.clock, clocks.steady) for _ in range(3)]
        async with inside(stores[0]) as one, inside(stores[1]) as two:
            await one.put("agent", budget=GROWING)
            assert await granted(two, "e1") == 0
            clocks.set_ahead(DAY / 48)  # less than a start would trust
            assert await granted(one, "e2") == await granted(two, "e3") == 0
            async with inside(stores[2]) as three:
                assert await granted(three, "e4") == 0
                assert (await confirm(two, DAY / 48))[0] == 200
                assert {await granted(each, f"f{k}") for k, each in enumerate((one, two, three))} == {
                    50 / 48 // 1e-6 / 1e6
                }

    asyncio.run(scenario())


def test_a_process_that_slept_follows_those_that_did_not(postgres):
    """A virtual machine that was suspended finds the database's clock ahead; the others have seen no jump."""
    url = postgres.url("clock")

    async def scenario() -> None:
        awake, asleep = Clocks(), Clocks()
        stores = [PostgresStore(url, clocks.clock, clocks.steady) for clocks in (awake, asleep)]
        async with inside(stores[0]) as one, inside(stores[1]) as two:
            await one.put("agent", budget=GROWING)
            await granted(two, "e1")
            awake.pass_by(DAY)
            asleep.set_ahead(DAY)
            assert await granted(one, "e2") == 50
            assert await granted(two, "e3") == 50
            assert not (await two.call("GET", "/v1/clock")).json()["held"]

    asyncio.run(scenario())


def test_agents_that_a_wrong_clock_has_dated_already(tmp_path):
    """Their records keep their order; leases go by the time that it is."""

    async def scenario() -> None:
        clocks = Clocks()
        store = SqliteStore(tmp_path, clocks.clock, clocks.steady)
        async with inside(store) as made:
            await made.put("agent", lease=5)
            await made.decide("agent", "e1")
        with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
            connection.execute("UPDATE agents SET last_at = ?", ((START + YEARS) * SECOND,))
        async with inside(SqliteStore(tmp_path, clocks.clock, clocks.steady)) as made:
            told = (await made.decide("agent", "e2", defer=True)).json()
            assert told["lease_expires_at"] == "2026-01-01T00:00:05.000000Z"
            assert told["decided_at"].startswith("2035")
            clocks.pass_by(4)
            assert (await made.budget("agent"))["held"] == 1
            clocks.pass_by(2)
            assert (await made.call("POST", "agent/decisions/e2/activate")).status_code == 409
            assert (await made.budget("agent"))["held"] == 0

    asyncio.run(scenario())
