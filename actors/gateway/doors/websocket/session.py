"""The messages of one open socket: JSON-RPC calls, billed as over HTTP, and subscriptions.

Implements: interface, "WebSocket /ws"; decisions, "batch replies"; threats 10, 11, 30, 50, 59 and
61.
Replies come in the order in which they are ready; the id tells which call they answer. A message without an id gets an
error, except `ping`, which clients of the chain send to keep their connection: it gets nothing. A batch is answered as
one array, also where calls of it subscribe.

Refused calls count for the account as over HTTP, and so does a socket that is closed for a broken rule. When full:

- While CALLS_MAX messages are worked on, or the client takes nothing, no more is read of the client.
- While the account has too many refused calls in a second, every message is answered with RATE_LIMITED, without a look
  at it beyond its id. A socket that sends more than WAITS_MAX messages in that second is closed with 4003.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import orjson

from actors.calls import Figures, Proof
from actors.errors import Err, Refusal
from actors.gateway.calls import answers, jsonrpc, replies
from actors.gateway.calls.answers import LateAnswers
from actors.gateway.calls.consistency import MONOTONIC, with_consistency
from actors.gateway.calls.headers import HeaderList
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.large_requests import admitted
from actors.gateway.calls.outcomes import Replies, Reply
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.refused_work import cost_of
from actors.gateway.calls.requests import RefusedCaller
from actors.gateway.payments.authentication import Authenticator
from actors.http_server.websocket import BUFFERED_BYTES_MAX, RATE_LIMITED, WebSocket
from actors.request_ids import current, work_for
from actors.upstream.replies import MADE_ID, judge

logger = logging.getLogger(__name__)

CALLS_MAX = 64
WAITS_MAX = 20  # Each costs a quarter of a refused call.
BREACH_COST = 50  # Units of a refused call, about 1 ms: of a handshake, of the frames up to the limit, and of the end.
_ID_BYTES_MAX = 1_024  # For a message refused unread: a longer one is not parsed for its id.
_WITHDRAWN = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the ledger has withdrawn the charge; nothing is charged for this call"
)
_TAKES_NOTHING_SECONDS_MAX = 30.0
_POLICY = 1008


class StreamReply(Protocol):
    """The answer to a call that is about a subscription. body: `"result":...` or `"error":...`, as JSON.

    sent: to be called once the answer is written; the first notification follows it. is_error: nothing was done.
    """

    @property
    def body(self) -> bytes: ...

    @property
    def is_error(self) -> bool: ...

    @property
    def sent(self) -> Callable[[], None] | None: ...


class OpenStreams(Protocol):
    """The subscriptions of one socket."""

    def serves(self, method: str) -> bool:
        """Return whether this method subscribes or unsubscribes."""
        ...

    async def call(self, method: str, arguments: list[Any] | dict[str, Any]) -> StreamReply | Refusal: ...

    def writable(self) -> None: ...

    def closed(self) -> None: ...


class SocketSession:
    """A SocketHandler. deposit: where to deposit, for calls that lack credits. monotonic: all calls of the socket are,
    by the X-Consistency of its handshake."""

    def __init__(
        self,
        proof: Proof,
        authenticator: Authenticator,
        pipeline: Pipeline,
        late: LateAnswers,
        deposit: dict[str, str],
        next_id: Callable[[], str],
        open_streams: Callable[[WebSocket], OpenStreams],
        monotonic: bool = False,
    ) -> None:
        self._proof, self._authenticator, self._pipeline, self._late = proof, authenticator, pipeline, late
        self._deposit, self._next_id, self._open_streams = deposit, next_id, open_streams
        self._monotonic = monotonic
        self._work: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[Any]] = set()  # Those of its tasks that are cancelled when the socket ends.
        self._drained = asyncio.Event()
        self._drained.set()
        self._figures: Figures | None = None  # Figures of the account, once its owner has told them.
        self._waits_until, self._waits = 0, 0  # When the wait ends, and how many messages came before.

    # --- told by the connection

    def opened(self, socket: WebSocket) -> None:
        self._socket = socket
        self._client = _SocketClient(socket)
        self._streams = self._open_streams(socket)

    def message(self, text: bytes) -> None:
        wait = self._authenticator.wait_of(self._proof, self._client)
        if wait is not None:
            self._refuse_unread(text, wait)
            return
        calls = jsonrpc.parse(text)
        if self._monotonic:
            calls = with_consistency(calls, MONOTONIC.encode())  # type: ignore[assignment]
        if isinstance(calls, BadCall):
            if not _is_ping(text):
                cost = cost_of(body_bytes=len(text), brackets=text.count(b"[") + text.count(b"{"))
                self._refuse(calls, cost)
        elif isinstance(calls, Call):
            self._begin_call(calls)
        elif any(map(self._is_stream, calls)):
            self._begin(self._mixed_batch(calls))
        else:
            self._calls.add(self._begin(self._batch(calls)))

    @property
    def is_busy(self) -> bool:
        return bool(self._work)

    def writable(self) -> None:
        self._drained.set()
        self._look_at_reading()
        self._streams.writable()

    def closed(self) -> None:
        if self._socket.has_broken_a_rule:
            broken = BadCall(jsonrpc.NO_ID, Refusal(Err.RATE_LIMITED))
            self._count(broken, BREACH_COST)
        for task in self._calls:
            task.cancel()
        self._drained.set()
        self._streams.closed()

    # --- refusals

    def _refuse_unread(self, text: bytes, wait: RefusedCaller) -> None:
        """Tell a client to wait, at a small cost; close a socket that does not wait."""
        assert wait.figures is not None
        if self._waits_until != wait.figures.rate_reset:
            self._waits_until, self._waits = wait.figures.rate_reset, 0
        self._waits += 1
        if self._waits > WAITS_MAX:
            self._socket.breach(RATE_LIMITED, "rate_limited: too many refused calls; wait for retry_after_secs")
            return
        raw_id = jsonrpc.id_of(text, _ID_BYTES_MAX) or jsonrpc.NO_ID
        self._say(replies.error_object(wait, raw_id, self._next_id(), {}))

    def _refuse(self, call: BadCall, cost: int = 0) -> None:
        """Answer a call that is refused for free. At once, as its credential is checked while the socket is open: calls
        that waited for the owner would all get past the limit."""
        if call.refusal is jsonrpc.NOT_JSON:
            self._say(replies.parse_error(call.refusal, self._next_id()))
        else:
            self._say(replies.error_object(call.refusal, call.id, self._next_id(), {}))
        self._count(call, cost)

    def _count(self, call: BadCall, cost: int = 0) -> None:
        """Count a refusal, whether or not the client receives it."""
        if self._figures is None:
            self._begin(self._count_first(call, cost))
        else:
            done = Replies([Reply(call.id, None, call.refusal)], None, self._figures, self._figures.credits_remaining)
            work = (BadCall(call.id, call.refusal, max(cost, call.cost)),)
            self._pipeline.counted(self._proof, self._client, done, work)

    async def _count_first(self, call: BadCall, cost: int) -> None:
        """Count a refusal after asking the owner for the account's figures, on which the limit depends."""
        done = await self._pipeline.refuse(self._proof, call, self._client, cost)
        self._figures = done.figures or self._figures
        if done.refusal is not None:
            self._look_at_credential(done.refusal)

    # --- calls

    def _is_stream(self, call: Call | BadCall) -> bool:
        return isinstance(call, Call) and self._streams.serves(call.method)

    def _begin_call(self, call: Call) -> None:
        """A call ends with its socket, by the rules of cancelled requests. A subscription ends by itself."""
        if self._is_stream(call):
            self._begin(self._stream(call))
        else:
            end = admitted(call, self._pipeline.plans)
            if isinstance(end, BadCall):
                self._refuse(end)
            else:
                self._calls.add(self._begin(self._single(call)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        self._look_at_reading()
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._work.discard(task)
        self._calls.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a message on a socket could not be answered", exc_info=task.exception())
            self._socket.close(1011, "internal error")
        if self._socket.is_open:
            self._look_at_reading()
            self._socket.idle()

    def _look_at_reading(self) -> None:
        if self._socket.is_full or len(self._work) >= CALLS_MAX:
            self._socket.pause_reading()
        else:
            self._socket.resume_reading()

    async def _stream(self, call: Call) -> None:
        reply = await self._streams.call(call.method, call.arguments)
        if isinstance(reply, Refusal):
            self._say(replies.error_object(reply, call.id, self._next_id(), self._deposit))
            self._look_at_credential(reply)
        else:
            self._say(b'{"jsonrpc":"2.0",%b,"id":%b}' % (reply.body, call.id))
        if isinstance(reply, Refusal) or reply.is_error:
            self._count(_refused_stream(call, reply))
        elif reply.sent is not None:
            reply.sent()

    async def _single(self, call: Call) -> None:
        work_for(self._next_id())
        done = await self._pipeline.single(self._proof, call, self._client)
        reply = Reply(call.id, None, done.refusal) if done.refusal is not None else done.items[0]
        await self._reply([reply], is_batch=False)
        if done.refusal is not None:
            self._look_at_credential(done.refusal)

    async def _batch(self, calls: list[Call | BadCall]) -> None:
        work_for(self._next_id())
        done = await self._pipeline.batch(self._proof, calls, self._client)
        if done.refusal is None:
            await self._reply(done.items, is_batch=True)
            return
        await self._reply([Reply(call.id, None, done.refusal) for call in calls], is_batch=True)
        self._look_at_credential(done.refusal)

    async def _mixed_batch(self, calls: list[Call | BadCall]) -> None:
        """Answer a batch with subscriptions as one array; their notifications follow it."""
        work_for(self._next_id())
        others = [call for call in calls if not self._is_stream(call)]
        running: asyncio.Task[Replies] | None = None
        if others:
            running = asyncio.get_running_loop().create_task(self._pipeline.batch(self._proof, others, self._client))
            self._calls.add(running)
            running.add_done_callback(self._calls.discard)
        try:
            wanted = [call for call in calls if isinstance(call, Call) and self._is_stream(call)]
            opened = await asyncio.gather(*(self._streams.call(call.method, call.arguments) for call in wanted))
            done = Replies((), None, None) if running is None else await running
        except BaseException:
            if running is not None:
                running.cancel()
            raise
        streams = iter([_stream_reply(call.id, reply) for call, reply in zip(wanted, opened, strict=True)])
        plain = iter(done.items or [Reply(call.id, None, done.refusal) for call in others])
        items = [next(streams if self._is_stream(call) else plain) for call in calls]
        sent = [reply.sent for reply in opened if not isinstance(reply, Refusal) and reply.sent is not None]
        await self._reply(items, is_batch=True, sent=sent)
        for call, reply in zip(wanted, opened, strict=True):
            if isinstance(reply, Refusal) or reply.is_error:
                self._count(_refused_stream(call, reply))
        for refusal in (done.refusal, *(reply for reply in opened if isinstance(reply, Refusal))):
            if refusal is not None:
                self._look_at_credential(refusal)

    # --- answers

    async def _reply(self, items: Sequence[Reply], is_batch: bool, sent: Sequence[Callable[[], None]] = ()) -> None:
        """Send a paid answer once its charges stand, then report that it has left. sent: called then."""
        request_id = current()
        charges = [item.charge for item in items if item.charge is not None]
        try:
            stand = not charges or await self._late.stand(charges)
        except asyncio.CancelledError:
            self._pipeline.undelivered(items, self._client)
            raise
        if not stand:
            items = [item if item.charge is None else Reply(item.id, None, _WITHDRAWN) for item in items]
            charges = []
        if is_batch:
            response = answers.batch(items, request_id, self._deposit)
            self._say(*(response.parts or (response.body,)))
        elif items[0].refusal is not None:
            self._say(replies.error_object(items[0].refusal, items[0].id, request_id, self._deposit))
        else:
            response = answers.single(items[0], items[0].id)
            self._say(*(response.parts or (response.body,)))
        for told in sent:
            told()
        if self._socket.is_open:
            self._late.delivered(charges)
        elif charges:
            self._pipeline.undelivered(items, self._client)
        await self._until_taken()

    def _say(self, *parts: bytes | memoryview) -> None:
        self._socket.send_text(*map(bytes, parts))
        if self._socket.is_full:
            self._drained.clear()
            self._look_at_reading()

    async def _until_taken(self) -> None:
        """Close a socket whose client reads nothing of an answer, because it holds room; a slow reader may continue."""
        while self._socket.is_open and not self._drained.is_set():
            taken = self._socket.taken_bytes
            try:
                async with asyncio.timeout(_TAKES_NOTHING_SECONDS_MAX):
                    await self._drained.wait()
            except TimeoutError:
                if self._socket.taken_bytes - taken < BUFFERED_BYTES_MAX:
                    self._socket.close(1013, "the client takes nothing of its answers")

    def _look_at_credential(self, refusal: Refusal) -> None:
        if refusal.err is Err.AUTH_FAILED:
            self._socket.close(_POLICY, "policy_violation: the credential is not valid any more")


class _SocketClient:
    """The client of every call of a socket. Its address counts only at the handshake, so it has none here."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.headers: HeaderList = []
        self.peer: str | None = None

    @property
    def disconnected(self) -> bool:
        """Return whether the client ended the socket, or broke a rule. False: this server gave it up with its calls."""
        return not self._socket.is_given_up


def _refused_stream(call: Call, reply: StreamReply | Refusal) -> BadCall:
    """A refused subscription as a call that counts: an error of a node, or of the socket's limit, as INVALID_PARAMS."""
    return BadCall(call.id, reply if isinstance(reply, Refusal) else Refusal(Err.INVALID_PARAMS))


def _stream_reply(raw_id: bytes, reply: StreamReply | Refusal) -> Reply:
    if isinstance(reply, Refusal):
        return Reply(raw_id, None, reply)
    return Reply(raw_id, judge(b'{"jsonrpc":"2.0",%b,"id":%b}' % (reply.body, MADE_ID)), None)


def _is_ping(text: bytes) -> bool:
    """Return whether a message is a ping: `{"jsonrpc":"2.0","method":"ping"}`, with or without params."""
    if len(text) > 256:
        return False
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and value.get("method") == "ping" and "id" not in value
