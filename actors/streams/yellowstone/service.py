"""The service `geyser.Geyser` for clients of the gateway: what each stream and call costs, and the node's answers.

Implements: interface, "Signal billing": 1 credit for each established stream and each call; money rules 1
and 10. A call that the node refuses costs nothing.
A shell. Not here: who the caller is (gateway/doors/grpc.py), one stream (yellowstone/stream.py), what it costs while it
is open (yellowstone/charges.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import islice
from typing import Any, NoReturn

from google.protobuf.message import DecodeError

from actors.calls import Figures, KeyProof, Proof, SessionProof, WalletProof
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.geyser_proto import api, geyser_pb2
from actors.metering.meters import HeldCharge, Meters
from actors.metering.standing_watch import StandingWatch
from actors.methods.prices import STREAMS
from actors.stream_config import GeyserConfig
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.charges import GeyserCharges
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.feeds import GeyserFeeds, SourceRefused
from actors.streams.yellowstone.queues import GeyserQueues
from actors.streams.yellowstone.relay import relay
from actors.streams.yellowstone.replays import GeyserReplays
from actors.streams.yellowstone.stream import GeyserStream, status_of
from actors.streams.yellowstone.work import GeyserWork

logger = logging.getLogger(__name__)

REQUEST_CREDITS = STREAMS["grpc"]["request_credits"]
RESUME_METADATA = "x-resume-from-slot"  # In addition to the status, for programs; the text has the slot too.
_CALL_SECONDS_MAX = 30.0
_CLOSE_SECONDS = 2.0

Explain = Callable[[Refusal], tuple[int, str]]  # The gRPC status and text of a refusal of the account.
# Called with the account's proof, its figures, and bytes and filters of the request.
CountBad = Callable[[Proof, Figures, int, int], None]


class GeyserService:
    """minute_seconds: of an interval that is paid."""

    def __init__(
        self,
        feeds: GeyserFeeds,
        meters: Meters,
        credentials: StandingWatch,
        settings: GeyserConfig,
        clock: Clock,
        minute_seconds: float = STREAMS["grpc"]["interval_seconds"],
        replays: GeyserReplays | None = None,
    ) -> None:
        self._feeds, self._meters, self._credentials, self._replays = feeds, meters, credentials, replays
        self._settings, self._clock, self._minute_seconds = settings, clock, minute_seconds
        self.queues = GeyserQueues(settings.queues_bytes_max, settings.account_queues_bytes_max)
        self._work = GeyserWork() if replays is None else replays.work
        self._open: dict[bytes, int] = {}  # Streams by account.
        self._streams: dict[object, tuple[Callable[[], None], asyncio.Task[Any]]] = {}
        self._staying: dict[object, None] = {}  # Streams not told to end, oldest first.
        self._is_closing = False

    @property
    def is_up(self) -> bool:
        return self._feeds.is_up

    @property
    def streams_open(self) -> int:
        return sum(self._open.values())

    async def close(self) -> None:
        """End all streams with UNAVAILABLE, as a stopping node does, and close the connection to the node."""
        self.stop_taking()
        streams = tuple(self._streams.values())
        self.end_some(self.left)
        if streams:
            _, slow = await asyncio.wait([task for _, task in streams], timeout=_CLOSE_SECONDS)
            for task in slow:
                task.cancel()
        await self._feeds.close()

    # --- when this process leaves (LeavingStreams)

    @property
    def left(self) -> int:
        return len(self._staying)

    def stop_taking(self) -> None:
        self._is_closing = True

    def end_some(self, count: int) -> None:
        for stream in list(islice(self._staying, count)):
            del self._staying[stream]
            leave, _ = self._streams[stream]
            leave()

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
            # Not awaited: gRPC may cancel this call at any moment, and the hold must be released all the same.
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
            pass  # The window also answers while the node cannot.
        return geyser_pb2.SubscribeReplayInfoResponse(first_available=min(firsts)).SerializeToString()

    # --- streams

    async def subscribe(
        self,
        rpc: api.Rpc,
        requests: AsyncIterator[bytes],
        context: Any,
        proof: Proof,
        explain: Explain,
        count_bad: CountBad,
    ) -> None:
        """count_bad: called for a bad request, which is free; the work on it counts."""
        charge, proof = await self._held(rpc, context, proof, explain)
        account = charge.pubkey
        if (end := self._why_not(account)) is not None:
            await self._meters.release(charge)
            await _abort(context, end)
        self._open[account] = self._open.get(account, 0) + 1
        try:
            end = await self._run(rpc, requests, context, proof, charge, explain, count_bad)
            if end.code:
                # The status follows what the client has not read yet. Until it has left, the stream counts as open, as
                # gRPC holds its last update; the front cuts a client off that reads nothing for too long.
                await _abort(context, end)
        finally:
            self._open[account] -= 1
            if not self._open[account]:
                del self._open[account]

    async def _run(
        self,
        rpc: api.Rpc,
        requests: AsyncIterator[bytes],
        context: Any,
        proof: Proof,
        charge: HeldCharge,
        explain: Explain,
        count_bad: CountBad,
    ) -> StreamEnd:
        """Serve one stream until it ends; nothing of it is charged or kept in a queue after that."""
        account = charge.pubkey
        paying = GeyserCharges(self._meters, charge, partial(_end_of, explain=explain), self._minute_seconds)
        stream: GeyserStream | None = None
        payer = charge.settle.payer
        watched: Proof = payer if isinstance(proof, WalletProof) else proof
        try:
            # Sent at once, because some clients wait for headers before they write.
            await context.send_initial_metadata(())
            if rpc is api.SUBSCRIBE:
                stream = GeyserStream(
                    *(self._feeds, self._settings, self._clock, paying, self.queues, account),
                    *(self._work, self._replays),
                )
                ends, run, leave = stream.end, stream.run, stream.leave
            else:
                relayed = relay(self._feeds.open_deshred(), paying.establish)
                ends, run = relayed.end, relayed.run
                leave = partial(ends, geyser_ends.leaving(None))
            task = asyncio.current_task()
            assert task is not None
            self._streams[paying] = leave, task
            self._staying[paying] = None
            paying.on_end = lambda end: ends(end, True)
            self._credentials.join(watched, payer, paying, lambda refusal: ends(_end_of(refusal, explain), True))
            return await run(requests, context.write)
        finally:
            self._streams.pop(paying, None)
            self._staying.pop(paying, None)
            self._credentials.leave(watched, payer, paying)
            paying.stop()
            if stream is not None and stream.refused is not None:
                count_bad(proof, charge.figures, *stream.refused)

    def _why_not(self, account: bytes) -> StreamEnd | None:
        """Return why this account gets no further stream here, or None."""
        settings = self._settings
        if self._is_closing:
            return geyser_ends.SHUTTING_DOWN
        if self._open.get(account, 0) >= settings.streams_per_account:
            return geyser_ends.too_many_streams(settings.streams_per_account)
        return geyser_ends.no_room(settings.streams_max) if self.streams_open >= settings.streams_max else None

    async def _held(self, rpc: api.Rpc, context: Any, proof: Proof, explain: Explain) -> tuple[HeldCharge, Proof]:
        """Hold the credit of a call; returns it with the proof that the owner accepted."""
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
        except asyncio.CancelledError:  # The client left: its hold is released once it is known.
            self._meters.run(_released(self._meters, holding))
            raise


async def _released(meters: Meters, holding: "asyncio.Future[HeldCharge | Refusal]") -> None:
    held = await holding
    if isinstance(held, HeldCharge):
        await meters.release(held)


def _end_of(refusal: Refusal, explain: Explain) -> StreamEnd:
    code, text = explain(refusal)
    return StreamEnd(code, text)


def _is_late(context: Any) -> bool:
    """Return whether the client's deadline for its call has passed."""
    left = context.time_remaining()
    return left is not None and left <= 0


async def _abort(context: Any, end: StreamEnd) -> NoReturn:
    if end.resume_slot is None:
        await context.abort(status_of(end), end.text)
    else:
        await context.abort(status_of(end), end.text, ((RESUME_METADATA, str(end.resume_slot)),))
    raise AssertionError("abort always raises")
