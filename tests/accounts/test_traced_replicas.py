"""An owner's spans: each handling ends its span when its reply may leave, however it comes."""

import asyncio
from typing import Any

import pytest

from actors.accounts import traced_replicas
from actors.accounts.traced_replicas import TracedReplicas
from actors.calls import HoldItem, HoldReply, HoldRequest, SettleReply, SettleRequest, WalletProof, operation_at
from tests.telemetry.collector import SAMPLED, Spans

REPLY = SettleReply(True, 5)


class Handlers:
    """In place of Replicas: the next result of each."""

    def __init__(self, settled: Any = REPLY) -> None:
        self.settled = settled

    def hold(self, request: HoldRequest) -> Any:
        return HoldReply(b"", 1, None, (None,) * len(request.items), None)

    def settle(self, request: SettleRequest) -> Any:
        if isinstance(self.settled, Exception):
            raise self.settled
        return self.settled


def hold(number: int = 0, calls: int = 1, traceparent: str = SAMPLED) -> HoldRequest:
    items = (HoldItem("getSlot", 1),) * calls
    return HoldRequest(number.to_bytes(16, "big"), WalletProof(bytes(32), "n", 0), items, "a1-7", traceparent)


def settle(operation: bytes) -> SettleRequest:
    return SettleRequest(operation, bytes(32), 1, "getSlot", 1, 1, 0, 0)


async def test_each_call_of_a_traced_batch_ends_its_own_hold_in_the_trace() -> None:
    """Once: a settle that is asked again adds nothing, and neither does one of another request."""
    spans = Spans()
    handlers: Any = Handlers()
    traced = TracedReplicas(handlers, spans.tracing)
    traced.hold(hold(0, calls=2))
    traced.hold(hold(9, traceparent=""))
    for operation in (operation_at(bytes(16), 1), operation_at(bytes(16), 1), bytes(16), hold(9).operation):
        assert traced.settle(settle(operation)) is REPLY
    ended = await spans.ended()
    assert [span.name for span in ended] == ["owner: hold", "owner: settle and commit", "owner: settle and commit"]
    assert {span.parent.span_id for span in ended} == {int(SAMPLED.split("-")[2], 16)}


async def test_a_span_ends_when_the_reply_may_leave() -> None:
    """With the group's commit, with an awaitable, or with a refusal to handle it now."""
    spans = Spans()
    commit: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def slowly() -> SettleReply:
        return REPLY

    for number, result in enumerate(((REPLY, commit), (REPLY, None), slowly(), KeyError("ask again"))):
        handlers: Any = Handlers(result)
        traced = TracedReplicas(handlers, spans.tracing)
        traced.hold(hold(number))
        if isinstance(result, Exception):
            with pytest.raises(KeyError):
                traced.settle(settle(hold(number).operation))
        elif isinstance(result, tuple):
            assert traced.settle(settle(hold(number).operation)) is result
        else:
            assert await traced.settle(settle(hold(number).operation)) is REPLY
    commit.set_result(None)
    await asyncio.sleep(0)
    ended = [span.name for span in await spans.ended()]
    assert ended.count("owner: settle and commit") == 4
    assert ended[-1] == "owner: settle and commit", "the one that waited for its group"


async def test_holds_that_never_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their replica died: the oldest go first."""
    monkeypatch.setattr(traced_replicas, "_KEPT_MAX", 2)
    spans = Spans()
    handlers: Any = Handlers()
    traced = TracedReplicas(handlers, spans.tracing)
    for number in range(4):
        traced.hold(hold(number))
    for number in range(4):
        traced.settle(settle(hold(number).operation))
    assert [span.name for span in await spans.ended()].count("owner: settle and commit") == 2
