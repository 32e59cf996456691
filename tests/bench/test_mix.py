"""A day's mix of calls: its shares and sizes, the check of each answer, its prices, and the open model."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from typing import Any, ClassVar

import orjson
import pytest

from actors.gateway.calls.admission import PLANS
from bench import mix_node
from bench.baseline import PRICES
from bench.mix import Row, credits_of, faults_of
from bench.mix_load import MixClient, Seen, Step, leave, run
from bench.mix_node import SIZES, argument_of, result_of
from bench.mix_questions import SHARES, WRONG, Question, in_turn, mixed, ready


def answer(result: bytes, raw_id: bytes = b"7") -> bytes:
    return b'{"jsonrpc":"2.0","result":%b,"id":%b}' % (result, raw_id)


def test_the_mix_has_its_shares_and_sizes() -> None:
    """Methods as often as was said, answers from 100 bytes to 10 MB, and the same order each time."""
    found = mixed(lambda method, number: Question(method, b"%d" % number), sum(SHARES.values()))
    assert Counter(question.method for question in found) == SHARES
    assert found == mixed(lambda method, number: Question(method, b"%d" % number), sum(SHARES.values()))
    assert all(sum(percent for percent, _ in sizes) == 100 for sizes in SIZES.values()) and set(SIZES) == set(SHARES)
    largest, least = result_of("getBlock", b"250000000"), len(answer(result_of("sendTransaction", b'"x"')))
    assert len(largest) in {size for _, size in SIZES["getBlock"]}
    assert max(size for sizes in SIZES.values() for _, size in sizes) == 10_000_000 and 90 <= least <= 110


def test_an_answer_is_good_for_its_own_call_alone() -> None:
    """By its id and by its whole content."""
    question, other = ready("getAccountInfo", 1), ready("getAccountInfo", 2)
    results = [result_of(one.method, argument_of(orjson.loads(one.params))) for one in (question, other)]
    assert question.fault(answer(results[0]), b"7") is None
    for body in (answer(results[1]), answer(results[0][:-3] + b'x"}'), answer(results[0], b"8"), b"", b"{}"):
        fault = question.fault(body, b"7")
        assert fault is not None and fault in WRONG
    assert question.fault(b'{"jsonrpc":"2.0","error":{"code":1},"id":7}', b"7") == "an error"


def test_of_a_state_read_the_value_counts() -> None:
    """The slot beside it moves on."""
    value = b'"value":{"lamports":5}}'
    question = Question("getAccountInfo", b'["a"]', sha256(value).digest(), of_value=True)
    for slot in (1, 2):
        assert question.fault(answer(b'{"context":{"slot":%d},%b' % (slot, value)), b"7") is None
    assert question.fault(answer(b'{"context":{"slot":1},"value":{"lamports":6}}'), b"7") in WRONG
    assert question.fault(answer(b'"no value"'), b"7") in WRONG


def test_credits_are_the_catalogs() -> None:
    """Of both gateways: each method's price, and the price of a cached answer where there is one."""
    assert all(PRICES[method] == PLANS[method].ceiling for method in SHARES)
    assert credits_of({"getBlock": 2, "getSlot": 1}, "baseline") == credits_of({"getBlock": 2, "getSlot": 1}, "gateway")
    assert credits_of({"getBlock hit": 1, "getAccountInfo hit": 1}, "gateway") == PLANS["getBlock"].cached_ceiling + 1


def test_only_wrong_answers_and_credits_end_the_run_with_1() -> None:
    """A refusal is shown, as a machine may be slow."""
    seen = Seen({"getSlot": 1}, {"getBlock: status 503": 3}, 1.0, 100, 1, 1, 1)
    row = Row("ready", "gateway", 1, None, seen, 1.0, 1.0, 0)
    assert faults_of(row) == []
    assert faults_of(replace(row, off_by=-1)) == ["credits off by -1"]
    assert faults_of(replace(row, seen=Seen({}, {"getBlock: another content": 1}, 1.0, 0, 1, 1, 1)))


@contextlib.asynccontextmanager
async def listening(kind: type[mix_node.Connection]) -> AsyncIterator[str]:
    server = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


def small(count: int = 50) -> list[Question]:
    return [ready("getAccountInfo", number) for number in range(count)]


async def test_every_call_of_a_step_is_waited_for_and_checked() -> None:
    """Connections stay open, for their bytes to be read."""
    async with listening(mix_node.Connection) as url:
        open_ones: list[MixClient] = []
        seen = await run(Step(url, "", 3, 0.05), in_turn(small()), open_ones)
        assert seen.calls > 3 and seen.faults == {} and seen.bytes > 400 * seen.calls
        assert len(open_ones) == 3
        leave(open_ones)


async def test_a_node_that_mixes_answers_up_is_found_out() -> None:
    class Mixing(mix_node.Connection):
        def on_message_complete(self) -> None:
            self._body = orjson.dumps(orjson.loads(self._body) | {"params": ["always the same"]})
            super().on_message_complete()

    async with listening(Mixing) as url:
        open_ones: list[MixClient] = []
        seen = await run(Step(url, "", 1, 0.02), in_turn(small()), open_ones)
        assert seen.calls == 0 and set(seen.faults) == {"getAccountInfo: another content"}
        leave(open_ones)


async def test_a_rate_counts_from_the_time_at_which_a_call_was_due() -> None:
    """One connection and a node that takes 20 ms: of ten calls, 5 ms apart, the last one waits for all before it."""

    class Slow(mix_node.Connection):
        def on_message_complete(self) -> None:
            asyncio.get_running_loop().call_later(0.02, super().on_message_complete)

    async with listening(Slow) as url:
        open_ones: list[MixClient] = []
        seen = await run(Step(url, "", 1, 0.05, rate=200), in_turn(small()), open_ones)
        assert seen.calls == 10 and seen.p999_ms > 10 * 20 - 9 * 5 - 2 > 4 * 20
        leave(open_ones)


async def test_a_server_that_closes_unused_connections_costs_no_call() -> None:
    """HAProxy says 408 where no call came in time, and closes; any other answer to no call is somebody else's."""

    class Impatient(mix_node.Connection):
        """With the first call, the two connections that have not asked are given up."""

        said = b"408 Request Timeout"
        idle: ClassVar[list[Any]] = []

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.idle.append(self)

        def on_message_complete(self) -> None:
            for other in [one for one in self.idle if one is not self] if self.calls == 0 else []:
                other._transport.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % self.said)
                other._transport.close()
            type(self).calls += 1
            super().on_message_complete()

        calls: ClassVar[int] = 0

    class Wrong(Impatient):
        said = b"200 OK"
        idle: ClassVar[list[Any]] = []
        calls = 0

    for kind, faults in ((Impatient, set()), (Wrong, {"no call: another content"})):
        async with listening(kind) as url:
            open_ones: list[MixClient] = []
            # The second call is due half a second after the first, and its connection is given up before.
            seen = await run(Step(url, "", 3, 0.6, rate=2), in_turn(small()), open_ones)
            assert seen.calls == 2 and set(seen.faults) == faults
            leave(open_ones)


@pytest.mark.parametrize("method", list(SHARES))
def test_each_method_has_questions_that_differ(method: str) -> None:
    """Else one answer would be good for all; only a blockhash is asked for without saying of what."""
    found = {ready(method, number).params for number in range(3)}
    assert len(found) == (1 if method == "getLatestBlockhash" else 3)
