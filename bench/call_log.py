"""Measures what the log of calls costs: on the path of an answer, in the background of a replica, and in Redis.

Processor time of this process, the median of many rounds; no product is started. docs/decisions/log-of-calls.md has
the figures.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from redis.asyncio import Redis

from actors.call_log import core
from actors.call_log.core import Noted, RecentCalls, of_account
from actors.call_log.store import RedisCallLogStore
from actors.calls import Figures, HoldReply, SettleRequest
from actors.clock import SystemClock
from actors.gateway.calls.admission import PLANS, AdmittedCall
from actors.gateway.calls.call_notes import CallNotes
from actors.gateway.calls.outcomes import Replies, Reply
from actors.request_ids import work_for
from actors.upstream.replies import AnswerKind, NodeAnswer
from bench import scenario, stores

_ROUNDS, _CALLS, _PARTS = 60, 5_000, 500
_PUBKEY = b"a" * 32  # Of an account.


def main() -> None:
    """Measure notes, writes and reads."""
    work_for("0123456789-1f2e")
    recent, clock = RecentCalls(), SystemClock()
    held = HoldReply(_PUBKEY, 1, None, (None,), Figures(10, 1, 1, 1))
    call, answer = AdmittedCall(b"1", PLANS["getSlot"], b"[]"), NodeAnswer(AnswerKind.RESULT, b"1", 0, 1)
    settle = SettleRequest(b"o" * 16, _PUBKEY, 1, "getSlot", 1, 1, 1, 1)

    def replies() -> Replies:
        return Replies((Reply(b"1", answer, None, 5, settle),), None, held.figures, 5, held.payer)

    def noted_by(notes: CallNotes) -> Callable[[], None]:
        return lambda: (notes.noted(replies(), (call,), clock.monotonic()), None)[1]

    core.WAITING_OF_ACCOUNT_MAX = _CALLS
    alone = _nanoseconds(lambda: (replies(), clock.monotonic(), None)[2], recent)
    without, with_log = (_nanoseconds(noted_by(CallNotes(one, clock)), recent) for one in (None, recent))
    path = [("a call, no log is kept", without - alone), ("a call, a log is kept", with_log - alone)]
    scenario.show("On the path of an answer", ("what", "ns"), [(name, f"{value:,.0f}") for name, value in path])
    with tempfile.TemporaryDirectory(prefix="call-log-") as folder, stores.running(Path(folder)) as running:
        rows = asyncio.run(_in_redis(running.redis))
    scenario.show("In the background", ("what", "figure"), rows)


def _nanoseconds(work: Callable[[], None], recent: RecentCalls) -> float:
    rounds = []
    for _ in range(_ROUNDS):
        recent.take()
        began = time.process_time_ns()
        for _ in range(_CALLS):
            work()
        rounds.append((time.process_time_ns() - began) / _CALLS)
    return statistics.median(rounds)


async def _in_redis(url: str) -> list[tuple[str, str]]:
    clock, client = SystemClock(), Redis.from_url(url)
    store, now_ms = RedisCallLogStore(client, 10_000, 2_000_000), clock.now_ms()
    noted: Noted = (0, 0.00113, 5.0, "0123456789-1f2e", True), "getAccountInfo", "result", 1

    async def write(accounts: range, calls: int) -> None:
        part = [of_account(one.to_bytes(32, "big"), [noted] * calls, 5.0, now_ms) for one in accounts]
        await store.append(part, now_ms)

    async def bytes_used() -> int:
        return int((await client.info("memory"))["used_memory"])

    before, began, began_here = await bytes_used(), time.perf_counter(), time.process_time()
    for _ in range(_PARTS):
        await write(range(20), 10)
    here, whole, after = time.process_time() - began_here, time.perf_counter() - began, await bytes_used()
    for part in range(100):
        await write(range(1_000 + 100 * part, 1_100 + 100 * part), 1)
    alone = await bytes_used()
    began_here = time.process_time()
    for _ in range(100):
        await store.find((1).to_bytes(32, "big"), None, 100, now_ms)
    read = (time.process_time() - began_here) / 100
    await client.aclose()
    calls = 200 * _PARTS
    return [
        ("replica, µs for a call", f"{here / calls * 1e6:.1f}"),
        ("replica, ms of the event loop for a part of 200 calls", f"{here / _PARTS * 1e3:.2f}"),
        ("replica and Redis, µs for a call", f"{whole / calls * 1e6:.1f}"),
        ("Redis, bytes for a call", f"{(after - before) / calls:,.0f}"),
        ("Redis, bytes for an account with one call", f"{(alone - after) / 10_000:,.0f}"),
        ("replica, ms to read 100 calls", f"{read * 1e3:.2f}"),
    ]
