"""The service `geyser.Geyser` for clients of the gateway: what each stream and call costs, and the node's answers.

Implements: interface, "Signal billing": 1 credit for each established stream and each call, and 60 for every further
minute in which a stream is open; decisions, money rules 1 and 10. A stream is established when its first request is
accepted; what ends before, and a call that the node refuses, costs nothing. A minute is paid when it begins.
A shell. Not here: who the caller is (gateway/door_grpc.py), one stream (geyser_stream.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

from google.protobuf.message import DecodeError

from actors.calls import KeyProof, Proof, ProvenProof, SessionProof, WalletProof
from actors.catalog import STREAMS
from actors.clock import Clock
from actors.config import GeyserConfig
from actors.errors import Err, Refusal
from actors.geyser_proto import api, geyser_pb2
from actors.streams import geyser_ends
from actors.streams.geyser_ends import StreamEnd
from actors.streams.geyser_feeds import GeyserFeeds, SourceRefused
from actors.streams.geyser_queues import GeyserQueues
from actors.streams.geyser_relay import relay
from actors.streams.geyser_replays import GeyserReplays
from actors.streams.geyser_stream import GeyserStream, status_of
from actors.streams.meters import HeldCharge, Meters
from actors.streams.standing_watch import StandingWatch

logger = logging.getLogger(__name__)

REQUEST_CREDITS, MINUTE_CREDITS = STREAMS["grpc"]["request_credits"], STREAMS["grpc"]["interval_credits"]
MINUTE_NAME = "grpc/minute"
_CALL_SECONDS_MAX = 30.0
_FIRST_REQUEST_SECONDS = 30.0  # A stream without a request is charged after so long: its hold does not last.
_CLOSE_SECONDS = 2.0
_LEDGER_TRIES, _LEDGER_WAIT_SECONDS = 10, 1.0

Explain = Callable[[Refusal], tuple[int, str]]  # The gRPC status and text of a refusal of the account.


class GeyserService:
    """minute_seconds: of an interval that is paid."""

    def __init__(
        self,
        feeds: GeyserFeeds,
        meters: Meters,
        credentials: StandingWatch,
        settings: GeyserConfig,
        clock: Clock,
        minute_seconds: float = 60.0,
        replays: GeyserReplays | None = None,
    ) -> None:
        self._feeds, self._meters, self._credentials, self._replays = feeds, meters, credentials, replays
        self._settings, self._clock, self._minute_seconds = settings, clock, minute_seconds
        self.queues = GeyserQueues(settings.queues_bytes_max, settings.account_queues_bytes_max)
        self._open: dict[bytes, int] = {}  # Streams by account.
        self._streams: dict[object, tuple[Callable[[StreamEnd], None], asyncio.Task[Any]]] = {}
        self._is_closing = False

    @property
    def is_up(self) -> bool:
        return self._feeds.is_up

    @property
    def streams_open(self) -> int:
        return sum(self._open.values())

    async def close(self) -> None:
        """End all streams with UNAVAILABLE, as a node does that stops, and close the connection to the node."""
        self._is_closing = True
        streams = tuple(self._streams.values())
        for end, _ in streams:
            end(geyser_ends.SHUTTING_DOWN)
        if streams:
            _, slow = await asyncio.wait([task for _, task in streams], timeout=_CLOSE_SECONDS)
            for task in slow:
                task.cancel()
        await self._feeds.close()

    # --- calls that are answered once

    async def answer(self, rpc: api.Rpc, request: bytes, context: Any, proof: Proof, explain: Explain) -> bytes:
        """Ask the node. What it refuses costs nothing, and ends with its own status.

        A call whose deadline is over before its charge is posted has no answer any more, so it costs nothing either.
        """
        if _is_late(context):
            await _abort(context, geyser_ends.TOO_LATE)
        charge, _ = await self._held(rpc, context, proof, explain)
        left = context.time_remaining()
        seconds = _CALL_SECONDS_MAX if left is None else min(left, _CALL_SECONDS_MAX)
        try:
            answer = await self._ask(rpc, request, seconds)
        except SourceRefused as refused:
            await self._meters.release(charge)
            await _abort(context, refused.end)
        except BaseException:
            self._meters.run(self._meters.release(charge))
            raise
        if _is_late(context):
            # Not awaited: gRPC cancels this call at any moment now, and the hold must be let go of all the same.
            self._meters.run(self._meters.release(charge))
            await _abort(context, geyser_ends.TOO_LATE)
        if not await self._meters.post(charge):
            await _abort(context, geyser_ends.NOT_RECORDED)
        return answer

    async def _ask(self, rpc: api.Rpc, request: bytes, seconds: float) -> bytes:
        """The node's answer. Of replays: the first slot of the node's and of ours. Raises SourceRefused."""
        kept = None
        if rpc is api.SUBSCRIBE_REPLAY_INFO and self._replays is not None:
            kept = await self._replays.bounds()
        if kept is None:
            return await self._feeds.call(rpc, request, seconds)
        assert kept.first is not None
        firsts = [kept.first]
        try:
            answer = await self._feeds.call(rpc, request, seconds)
            told = geyser_pb2.SubscribeReplayInfoResponse.FromString(answer)
            firsts += [told.first_available] if told.HasField("first_available") else []
        except (SourceRefused, DecodeError):
            pass  # The window answers also while the node cannot.
        return geyser_pb2.SubscribeReplayInfoResponse(first_available=min(firsts)).SerializeToString()

    # --- streams

    async def subscribe(
        self, rpc: api.Rpc, requests: AsyncIterator[bytes], context: Any, proof: Proof, explain: Explain
    ) -> None:
        charge, proof = await self._held(rpc, context, proof, explain)
        account = charge.pubkey
        if (end := self._why_not(account)) is not None:
            await self._meters.release(charge)
            await _abort(context, end)
        self._open[account] = self._open.get(account, 0) + 1
        paying = _Paying(self._meters, charge, explain, self._minute_seconds)
        watched: Proof = ProvenProof(account) if isinstance(proof, WalletProof) else proof
        try:
            # Headers at once: some clients wait for them before they write.
            await context.send_initial_metadata(())
            if rpc is api.SUBSCRIBE:
                stream = GeyserStream(
                    *(self._feeds, self._settings, self._clock, paying.establish, self.queues, account, self._replays)
                )
                ends, run = stream.end, stream.run
            else:
                relayed = relay(self._feeds.open_stream(rpc), paying.establish)
                ends, run = relayed.end, relayed.run
            task = asyncio.current_task()
            assert task is not None
            self._streams[paying] = ends, task
            paying.on_end = lambda end: ends(end, True)
            self._credentials.join(watched, paying, lambda refusal: ends(_end_of(refusal, explain), True))
            end = await run(requests, context.write)
        finally:
            self._streams.pop(paying, None)
            self._credentials.leave(watched, paying)
            paying.stop()
            self._open[account] -= 1
            if not self._open[account]:
                del self._open[account]
        if end.code:
            await _abort(context, end)

    def _why_not(self, account: bytes) -> StreamEnd | None:
        """Why this account gets no further stream here."""
        settings = self._settings
        if self._is_closing:
            return geyser_ends.SHUTTING_DOWN
        if self._open.get(account, 0) >= settings.streams_per_account:
            return geyser_ends.too_many_streams(settings.streams_per_account)
        return geyser_ends.no_room(settings.streams_max) if self.streams_open >= settings.streams_max else None

    async def _held(self, rpc: api.Rpc, context: Any, proof: Proof, explain: Explain) -> tuple[HeldCharge, Proof]:
        """Hold the credit of a call; with the proof that the owner accepted."""
        held = await self._hold(rpc, proof)
        if isinstance(held, Refusal) and held.err is Err.AUTH_FAILED and isinstance(proof, SessionProof):
            # 64 hexadecimal characters are a session token or an API key of the older form; x-token does not say which.
            proof = KeyProof(proof.token_hash, proof.routing)
            held = await self._hold(rpc, proof)
        if isinstance(held, Refusal):
            await _abort(context, _end_of(held, explain))
        return held, proof

    async def _hold(self, rpc: api.Rpc, proof: Proof) -> HeldCharge | Refusal:
        holding = asyncio.ensure_future(self._meters.hold(proof, f"grpc/{rpc.name}", REQUEST_CREDITS))
        try:
            return await asyncio.shield(holding)
        except asyncio.CancelledError:  # The client left: its hold is let go of when it is there.
            self._meters.run(_released(self._meters, holding))
            raise


class _Paying:
    """The charges of one stream: its credit once, then its minutes."""

    def __init__(self, meters: Meters, charge: HeldCharge, explain: Explain, minute_seconds: float) -> None:
        self._meters, self._charge, self._explain = meters, charge, explain
        self._minute_seconds = minute_seconds
        self._is_settled = False
        self.on_end: Callable[[StreamEnd], None] | None = None
        self._task = asyncio.create_task(self._pay_late())

    async def establish(self) -> StreamEnd | None:
        """Charge for the stream, once. A StreamEnd: the charge could not be recorded."""
        if self._is_settled:
            return None
        self._is_settled = True
        if not await self._meters.post(self._charge):
            return geyser_ends.NOT_RECORDED
        if self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = asyncio.create_task(self._pay_minutes())
        return None

    def stop(self) -> None:
        self._task.cancel()
        if not self._is_settled:
            self._is_settled = True
            self._meters.run(self._meters.release(self._charge))

    async def _pay_late(self) -> None:
        await asyncio.sleep(_FIRST_REQUEST_SECONDS)
        end = await self.establish()
        if end is not None:
            self._finish(end)

    async def _pay_minutes(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += self._minute_seconds  # Not from the last payment on: minutes must not grow by what payments take.
            await asyncio.sleep(due - loop.time())
            end = await self._pay_minute()
            if end is not None:
                self._finish(end)
                return

    async def _pay_minute(self) -> StreamEnd | None:
        proof = ProvenProof(self._charge.pubkey)
        for _ in range(_LEDGER_TRIES):
            held = await self._meters.hold(proof, MINUTE_NAME, MINUTE_CREDITS, takes_rate_unit=False)
            if isinstance(held, HeldCharge):
                if await self._meters.post(held):
                    return None
            elif held.err is not Err.SERVICE_TEMPORARILY_UNAVAILABLE:
                return _end_of(held, self._explain)
            await asyncio.sleep(_LEDGER_WAIT_SECONDS)
        return geyser_ends.NOT_RECORDED

    def _finish(self, end: StreamEnd) -> None:
        if self.on_end is not None:
            self.on_end(end)


async def _released(meters: Meters, holding: "asyncio.Future[HeldCharge | Refusal]") -> None:
    held = await holding
    if isinstance(held, HeldCharge):
        await meters.release(held)


def _end_of(refusal: Refusal, explain: Explain) -> StreamEnd:
    code, text = explain(refusal)
    return StreamEnd(code, text)


def _is_late(context: Any) -> bool:
    """Whether the deadline that the client gave for its call is over."""
    left = context.time_remaining()
    return left is not None and left <= 0


async def _abort(context: Any, end: StreamEnd) -> NoReturn:
    await context.abort(status_of(end), end.text)
    raise AssertionError("abort always raises")
