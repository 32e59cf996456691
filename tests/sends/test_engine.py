"""The block engine as it is asked: its rate limit kept here, its answers unchanged, its outages told apart."""

import asyncio

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.addresses import TIP_ACCOUNTS
from actors.clock import ManualClock
from actors.sends.engine import (
    BlockEngineClient,
    EngineAnswer,
    EngineAway,
    EngineCall,
    EngineUnavailable,
    RateBucket,
    error_of,
)
from tests.sends.conftest import EngineServer, Here


class Sleeps:
    """Sleeping that moves the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.slept = clock, list[float]()

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds + 0.001)


@given(st.floats(0.5, 50), st.lists(st.floats(0, 3), max_size=60))
def test_no_more_leave_than_the_rate_allows(rate: float, pauses: list[float]) -> None:
    """Whatever the moments, in any time there are at most a second's worth and the rate."""
    bucket, now, taken = RateBucket(rate), 100.0, 0
    for pause in pauses:
        now += pause
        wait = bucket.take(now)
        assert wait >= 0
        taken += wait == 0
    assert taken <= max(1.0, rate) + (now - 100) * rate + 1e-6


def test_a_refusal_by_the_bucket_says_when_to_ask_again() -> None:
    bucket = RateBucket(2.0)
    assert [bucket.take(100) for _ in range(3)] == [0, 0, 0.5]
    assert bucket.wait_seconds(100.5) == 0


async def test_the_rate_is_kept_across_all_kinds_of_requests(engine_server: EngineServer, here: Here) -> None:
    """One request a second: bundles, statuses and transactions wait for each other."""
    sleeps = Sleeps(ManualClock())
    client = BlockEngineClient(engine_server.url, sleeps.clock, sleep=sleeps)
    await client.tip_accounts(5_000)
    await client.call("/api/v1/getBundleStatuses", "getBundleStatuses", b'[["x"]]', 5_000)
    await client.send_transaction(here.payment(tip=True).raw, 5_000, wait_ms=2_000)
    assert len(engine_server.requests) == 3 and sum(sleeps.slept) == pytest.approx(2, abs=0.01)
    with pytest.raises(EngineUnavailable, match="rate limit") as refused:
        await client.send_transaction(here.payment(tip=True).raw, 5_000, wait_ms=0)
    assert not refused.value.sent and refused.value.retry_seconds > 0
    assert len(engine_server.requests) == 3
    await client.close()


async def test_answers_of_the_engine_are_unchanged(engine_server: EngineServer) -> None:
    """Errors too, with their status."""
    client = BlockEngineClient(engine_server.url, ManualClock(), requests_per_second=100)
    answer = await client.call("/api/v1/bundles", "sendBundle", b"[[]]", 5_000)
    assert answer.status == 400 and "error" in orjson.loads(answer.body)
    assert error_of(answer).startswith("-32602")
    await client.close()


async def test_tip_accounts_and_tip_floor_are_kept(engine_server: EngineServer) -> None:
    """They change rarely, and each request counts against the rate."""
    clock = ManualClock()
    client = BlockEngineClient(engine_server.url, clock, requests_per_second=100)
    for _ in range(3):
        assert await client.tip_accounts(5_000) == TIP_ACCOUNTS
        floor = orjson.loads(await client.tip_floor(5_000))
        assert floor["landed_tips_50th_percentile"] == 0
    assert sorted(engine_server.requests) == ["/api/v1/bundles/tip_floor", "/api/v1/getTipAccounts"]
    clock.advance(6)
    await client.tip_floor(5_000)
    engine_server.status = 503
    clock.advance(600)
    assert await client.tip_accounts(5_000) == TIP_ACCOUNTS  # The old ones are better than none.
    with pytest.raises(EngineUnavailable):
        await client.tip_floor(5_000)
    await client.close()


async def test_an_outage_before_the_first_answer_is_told(engine_server: EngineServer) -> None:
    engine_server.status = 503
    client = BlockEngineClient(engine_server.url, ManualClock(), requests_per_second=100)
    with pytest.raises(EngineUnavailable, match="understood"):
        await client.tip_accounts(5_000)
    assert client.known_tip_accounts == TIP_ACCOUNTS
    await client.close()


async def test_an_engine_that_is_gone_got_nothing() -> None:
    client = BlockEngineClient("http://127.0.0.1:1", ManualClock())
    with pytest.raises(EngineUnavailable) as refused:
        await client.call("/api/v1/bundles", "sendBundle", b"[]", 5_000)
    assert not refused.value.sent and client.host == "127.0.0.1"
    await client.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (EngineAnswer(200, b'{"result":"x"}'), ""),
        (EngineAnswer(429, b'{"error":{"code":-32097,"message":"Rate limit"}}'), "-32097: Rate limit"),
        (EngineAnswer(502, b"<html>"), "HTTP 502"),
        (EngineAnswer(200, b"[]"), "HTTP 200"),
        (EngineAnswer(500, b'{"result":"x"}'), "HTTP 500"),
    ],
)
def test_errors_of_the_engine_are_read(answer: EngineAnswer, said: str) -> None:
    assert error_of(answer) == said


async def test_a_customers_question_gets_the_engines_bytes(engine_server: EngineServer) -> None:
    """What is kept of the engine costs it no request; what it refuses is its own answer."""
    client = BlockEngineClient(engine_server.url, ManualClock(), requests_per_second=100)
    for _ in range(2):
        accounts = await client.answer(EngineCall("getTipAccounts", b"[]", 5_000))
        floor = await client.answer(EngineCall("tipFloor", b"[]", 5_000))
    assert isinstance(accounts, EngineAnswer) and orjson.loads(accounts.body)["result"] == list(TIP_ACCOUNTS)
    assert isinstance(floor, EngineAnswer) and "time" in orjson.loads(floor.body)["result"]
    refused = await client.answer(EngineCall("sendBundle", b"[[]]", 5_000))
    assert isinstance(refused, EngineAnswer) and refused.status == 400
    assert engine_server.requests == ["/api/v1/getTipAccounts", "/api/v1/bundles/tip_floor", "/api/v1/bundles"]
    await client.close()


async def test_a_customers_question_over_the_rate_is_told_apart_from_an_outage(engine_server: EngineServer) -> None:
    """It waits for half of its time."""
    sleeps = Sleeps(ManualClock())
    client = BlockEngineClient(engine_server.url, sleeps.clock, requests_per_second=0.25, sleep=sleeps)
    asked = EngineCall("getBundleStatuses", b'[["x"]]', 6_000)
    assert isinstance(await client.answer(asked), EngineAnswer)
    refused = await client.answer(asked)
    assert isinstance(refused, EngineAway) and refused.busy and not refused.late
    await client.close()
    gone = BlockEngineClient("http://127.0.0.1:1", ManualClock())
    assert await gone.answer(asked) == EngineAway("the block engine cannot be reached: ClientConnectorError")
    await gone.close()


async def test_three_failures_in_a_row_are_an_outage_and_one_answer_ends_it(engine_server: EngineServer) -> None:
    """Decisions, "health transitions". While nobody asks anything, the engine is asked now and then."""
    clock = ManualClock()
    looks: list[tuple[bool, int]] = []

    async def sleep(seconds: float) -> None:
        looks.append((client.reachable, len(engine_server.requests)))
        engine_server.status = 503 if 3 <= len(looks) < 10 else None
        clock.advance(seconds)
        if len(looks) == 16:
            raise asyncio.CancelledError

    client = BlockEngineClient(engine_server.url, clock, requests_per_second=100, sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        await client.watch()
    # Quiet: one request in 20 seconds. Away: one each 5 seconds, and an outage from the third on.
    assert [reachable for reachable, _ in looks] == [True] * 7 + [False] * 3 + [True] * 6
    assert [count for _, count in looks] == [1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 8]
    await client.close()
