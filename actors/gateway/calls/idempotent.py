"""Carries out requests that have an Idempotency-Key: once, however often, at however many replicas they arrive.

Implements: decisions, "Idempotency-Key" (same key and body: same answer and one charge, kept for 24 hours; another
body, or a call that is still running: 409, free).
A shell: idempotency/core.py decides, its store decides which of two requests was first.

The charge of a key is one operation, stored with the key before anything is held. The ledger debits an operation once,
so a key is charged once, whoever runs its call and whatever is killed when. The answer is stored before it is charged:
a replica that dies in between leaves an answer whose charge is posted when it is asked for again. A replica that dies
earlier leaves a run that another request takes over after its lease; it asks again with the same operation, without a
hold, as the earlier one has expired. A call that ended without a charge leaves nothing: its key can be used again.
Such an operation belongs to no replica, so that no owner refunds it when the replica dies: the answer waits in the
store. A client that leaves ends nothing here, and finds the answer under its key.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import HoldReply, HoldRequest, Outcome, Proof, SettleReply, SettleRequest
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls import account_prices, headers, large_requests, outcomes
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.evidence import evidence_of
from actors.gateway.calls.headers import HeaderList
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.kept_answers import KeptAnswer, KeptPage
from actors.gateway.calls.outcomes import Replies, Reply, ended, not_held, release_of, whole
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.quoted import is_unpaid_quote, judged_item
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import Client, Request
from actors.idempotency.core import ANSWER_BYTES_MAX, KeyRecord, Verdict, began, decide, fingerprint_of, parse_key
from actors.idempotency.store import IdempotencyStore, KeysUnavailable
from actors.telemetry.metrics import Metrics
from actors.upstream.replies import AnswerKind, DeferredAnswer, NodeAnswer, RelayedAnswer

logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")

_BAD_KEY = Refusal(Err.INVALID_REQUEST, "Idempotency-Key: wanted 1 to 255 printable ASCII characters, once")
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "Idempotency-Keys cannot be stored at the moment")
_TOO_MANY = Refusal(Err.RATE_LIMITED, "this account has too many Idempotency-Keys of the last 24 hours")
_IN_USE = Refusal(Err.IDEMPOTENCY_KEY_IN_USE)
_REFUSED = MappingProxyType(
    {
        Verdict.OTHER_REQUEST: Refusal(Err.IDEMPOTENCY_KEY_REUSED),
        Verdict.RUNNING: _IN_USE,
        Verdict.NOT_KEPT: Refusal(
            Err.IDEMPOTENCY_KEY_REUSED, "its request was answered and charged once; the answer was too large to keep"
        ),
    }
)
_NOT_CHARGED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the charge was refused; nothing is charged, and the key can be used again"
)
_CHARGE_UNKNOWN = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the charge could not be recorded yet; the answer waits under the same key"
)
_ANSWER_NOT_STORED = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE,
    "the answer could not be stored under its Idempotency-Key, so it is not given; nothing is charged",
)


class IdempotentCalls:
    """store: None where keys cannot be stored; requests that have one are then refused."""

    def __init__(
        self,
        pipeline: Pipeline,
        accounts: AccountsClient,
        store: IdempotencyStore | None,
        clock: Clock,
        keys_max: int,
        metrics: Metrics,
    ) -> None:
        self._pipeline, self._accounts, self._store, self._clock = pipeline, accounts, store, clock
        self._keys_max, self._metrics = keys_max, metrics
        self.keeps = store is not None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def drain(self) -> None:
        """Wait for running requests, whose clients may have left."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def single(
        self, proof: Proof, call: Call | BadCall | AdmittedCall, key: bytes | None, client: Client | None
    ) -> Replies:
        """Run a single call as Pipeline.single does. A call that moves no money ignores its key."""
        if key is None:
            return await self._pipeline.single(proof, call, client)
        admitted = large_requests.admitted(call, self._pipeline.prices.plans_for(proof, (call,)))
        if isinstance(admitted, BadCall) or not admitted.plan.takes_key:
            return await self._pipeline.single(proof, admitted, client)
        work = self._pipeline.limited(proof, client, 1, lambda: self._single(proof, admitted, key, client))
        return await asyncio.shield(self._in_background(self._pipeline.notes.noting(work, (admitted,))))

    async def page(
        self,
        scope: bytes,
        request: Request,
        work: Callable[[], Awaitable[Response | Refusal]],
        added: HeaderList,
    ) -> Response | Refusal:
        """Answer a path that is no call and charges nothing. scope: the account, or what the key belongs to.

        Only an answer below 300 is kept. added: headers of a repeated answer.
        """
        assert request.key is not None, "asked without a key"
        fingerprint = fingerprint_of(request.path.decode("ascii"), request.body)
        try:
            claimed = await self._claim(scope, request.key, fingerprint)
        except KeysUnavailable as error:
            return _away(error)
        if isinstance(claimed, Refusal):
            return claimed
        record, verdict = claimed
        if verdict is Verdict.REPEAT:
            kept = msgspec.msgpack.decode(record.answer, type=KeptPage)
            return Response(kept.status, kept.body, [headers.REPEATED, *added])
        return await asyncio.shield(self._in_background(self._page(record, work)))

    # --- the steps

    async def _single(self, proof: Proof, admitted: AdmittedCall, key: bytes, client: Client | None) -> Replies:
        """Verify the credential first, and use its nonce: a key is looked up only for its account."""
        items = (judged_item(admitted),) if admitted.plan.quoted else ()
        held = await self._accounts.hold(HoldRequest(self._pipeline.take_lasting_operation(), proof, items))
        if held.refusal is not None:
            return self._pipeline.counted(proof, client, whole(held))
        assert held.figures is not None
        return self._pipeline.counted(proof, client, await self._claimed(admitted, key, held))

    async def _claimed(self, admitted: AdmittedCall, key: bytes, held: HoldReply) -> Replies:
        admitted = self._pipeline.prices.told_by(held, admitted)
        asked = fingerprint_of(admitted.plan.method, admitted.params)
        try:  # X-Max-Credits was judged by a guessed price list.
            claimed = account_prices.over_limit((admitted,)) or await self._claim(_scope_of(held), key, asked)
        except KeysUnavailable as error:
            claimed = _away(error)
        if isinstance(claimed, Refusal):
            return _free(admitted, claimed, held)
        record, verdict = claimed
        if verdict is Verdict.REPEAT:
            return await self._repeat(admitted, record, held)
        try:
            return await self._run(admitted, record, verdict, held)
        except OwnerUnavailable:
            await self._forget(record)
            raise
        except Exception:  # A bug. The hold expires, and the next request may try again.
            await self._leave(record)
            raise

    async def _claim(self, scope: bytes, key: bytes, fingerprint: bytes) -> tuple[KeyRecord, Verdict] | Refusal:
        """Return the key's record and the possible action, or a refusal. Raises KeysUnavailable."""
        name = parse_key(key)
        if name is None:
            return _BAD_KEY
        if self._store is None:
            return _AWAY
        now_ms = self._clock.now_ms()
        mine = began(scope, name, fingerprint, self._pipeline.take_lasting_operation(), now_ms)
        stored = await self._store.claim(mine, now_ms, self._keys_max)
        if stored is None:
            return _TOO_MANY
        verdict = decide(stored, mine, now_ms)
        if verdict is Verdict.TAKE_OVER:
            if not await self._store.take_over(stored, mine.attempt, mine.lease_until_ms):
                return _IN_USE
            return replace(stored, attempt=mine.attempt), verdict
        return _REFUSED.get(verdict) or (stored, verdict)

    async def _run(self, admitted: AdmittedCall, record: KeyRecord, verdict: Verdict, held: HoldReply) -> Replies:
        """Hold, ask, judge, store, settle: the pipeline's steps, with the answer stored before its charge."""
        if admitted.plan.quoted:
            end = await self._pipeline.quoted.one(admitted, held, held.verdicts[0])
            if not isinstance(end, AdmittedCall):
                await self._forget(record)
                return _replies(ended(admitted.id, end), held, None)
            admitted = end
        if verdict is Verdict.RUN:
            admitted, granted = await self._pipeline.held_one(record.operation, held.payer, admitted)
            if granted.refusal is not None or granted.verdicts[0] is not None:
                await self._forget(record)
                if granted.refusal is not None:
                    return whole(granted)
                assert granted.figures is not None
                left = granted.figures.credits_remaining
                refusal = not_held(str(granted.verdicts[0]), admitted.plan.ceiling, left)
                if is_unpaid_quote(admitted, refusal):
                    await self._pipeline.quoted.count_unpaid(held.payer, (admitted.plan.method,))
                return _free(admitted, refusal, granted)
            held = granted
        release, began_at = release_of(admitted, record.operation, held, self._clock.now()), self._clock.monotonic()
        answer = admitted.answer or await self._pipeline.ask(admitted, release)
        if isinstance(answer, DeferredAnswer):
            await (self._not_kept(admitted, record, answer, 0) if answer.final else self._leave(record))
            return _answered(admitted, answer, held, None, answer.posted, record.operation)
        ending = outcomes.judge(admitted.plan.method, admitted.plan.ceiling, answer)
        seconds = self._clock.monotonic() - began_at
        self._metrics.call_ended(admitted.plan.method, ending.outcome, ending.charged, seconds)
        if ending.charged == 0 and verdict is Verdict.TAKE_OVER:
            # A run that was taken over has no hold. A release would refund a charge made since.
            await (self._leave(record) if admitted.plan.deferred else self._forget(record))
            return _free(admitted, ending.refusal, held) if ending.refusal else _answered(admitted, answer, held, None)
        if ending.charged == 0:
            return await self._end_free(admitted, record, release, answer, ending.refusal, held)
        withheld = await self._not_kept(admitted, record, answer, ending.charged)
        if withheld is not None:
            return _free(admitted, withheld, held)
        evidence = await evidence_of(admitted, record.operation, answer, ending.charged)
        settle = msgspec.structs.replace(release, charged=ending.charged, outcome=ending.outcome, evidence=evidence)
        return await self._settled(admitted, record, settle, answer, held)

    async def _repeat(self, admitted: AdmittedCall, record: KeyRecord, held: HoldReply) -> Replies:
        """Return the stored answer. Its charge is posted again, because the replica that stored it may have died."""
        kept = msgspec.msgpack.decode(record.answer, type=KeptAnswer)
        kind = AnswerKind(kept.kind)
        answer = RelayedAnswer(kind, kept.body, kept.id_start, kept.id_end, http=kept.http, bundle_id=kept.bundle_id)
        if record.charged == 0:  # The hold of a deferred call ends elsewhere.
            done = _answered(admitted, answer, held, None, kept.posted, record.operation)
        else:
            release = release_of(admitted, record.operation, held, self._clock.now())
            outcome = int(Outcome.ANSWERED if kind is AnswerKind.RESULT else Outcome.UPSTREAM_ERROR)
            ceiling = max(record.charged, release.ceiling)  # The price may have changed since.
            evidence = await evidence_of(admitted, record.operation, answer, record.charged)
            ending = {"charged": record.charged, "ceiling": ceiling, "outcome": outcome, "evidence": evidence}
            settle = msgspec.structs.replace(release, **ending)
            done = await self._settled(admitted, record, settle, answer, held)
        done.repeated = done.items[0].answer is not None
        return done

    async def _settled(
        self, admitted: AdmittedCall, record: KeyRecord, settle: SettleRequest, answer: NodeAnswer, held: HoldReply
    ) -> Replies:
        """Return the answer once its charge is in the ledger. Repeating the operation changes nothing."""
        try:
            settled = await self._accounts.settle(settle)
        except OwnerUnavailable:
            return _unrecorded(admitted, _CHARGE_UNKNOWN, held)
        if not settled.ok:
            await self._forget(record)
            return _unrecorded(admitted, _NOT_CHARGED, held)
        self._accounts.delivered(settle.pubkey, settle.operation)  # From here on the answer waits in the store.
        return _answered(admitted, answer, held, settled, settle.charged, record.operation)

    async def _end_free(
        self,
        admitted: AdmittedCall,
        record: KeyRecord,
        release: SettleRequest,
        answer: NodeAnswer,
        refusal: Refusal | None,
        held: HoldReply,
    ) -> Replies:
        settled: SettleReply | None = None
        try:
            settled = await self._accounts.settle(release)
        except OwnerUnavailable:
            self._accounts.void(release)
        await self._forget(record)
        return _free(admitted, refusal, held) if refusal is not None else _answered(admitted, answer, held, settled)

    async def _page(self, record: KeyRecord, work: Callable[[], Awaitable[Response | Refusal]]) -> Response | Refusal:
        try:
            found = await work()
        except BaseException:
            await self._forget(record)
            raise
        if isinstance(found, Response) and found.status < 300:
            try:
                await self._keep(record, msgspec.msgpack.encode(KeptPage(found.status, found.body)), 0)
            except KeysUnavailable as error:
                logger.warning("a page is not kept under its Idempotency-Key: %s", error)
        else:
            await self._forget(record)
        return found

    # --- the store: when it fails, the record is taken over or expires, and no answer changes but that of a quoted call

    async def _not_kept(
        self, admitted: AdmittedCall, record: KeyRecord, answer: NodeAnswer, charged: int
    ) -> Refusal | None:
        """Store the answer of a run before its charge. Gives why it may not leave, or None.

        An answer that cannot be stored leaves all the same, unless the call is quoted: the next run of its key would
        find another price and another transaction, and the ledger, which charges the operation of a key once, would
        have the first price. Its hold is left to its expiry, because the store may have the answer in spite of its
        failure, and then the next request gets the answer and pays for it.
        """
        kept = KeptAnswer(
            int(answer.kind),
            answer.body,
            answer.id_start,
            answer.id_end,
            getattr(answer, "http", 200),
            getattr(answer, "bundle_id", ""),
            answer.posted if isinstance(answer, DeferredAnswer) else 0,
        )
        try:
            is_mine = await self._keep(record, msgspec.msgpack.encode(kept), charged)
        except KeysUnavailable as error:
            logger.warning("an answer is not kept under its Idempotency-Key: %s", error)
            return None if admitted.answer is None else _ANSWER_NOT_STORED
        # Otherwise another request took this run over, and its answer counts.
        return None if is_mine else _IN_USE

    async def _keep(self, record: KeyRecord, answer: bytes, charged: int) -> bool:
        """Store the answer. False: another request took the run over, and is charged for it. Raises KeysUnavailable."""
        assert self._store is not None
        return await self._store.keep(record, answer if len(answer) <= ANSWER_BYTES_MAX else b"", charged)

    async def _forget(self, record: KeyRecord) -> None:
        assert self._store is not None
        try:
            await self._store.forget(record)
        except KeysUnavailable as error:
            logger.warning("an Idempotency-Key stays in use until its lease ends: %s", error)

    async def _leave(self, record: KeyRecord) -> None:
        assert self._store is not None
        try:
            await self._store.leave(record)
        except KeysUnavailable as error:
            logger.warning("an Idempotency-Key stays in use until its lease ends: %s", error)

    def _in_background(self, work: Coroutine[Any, Any, _Result]) -> "asyncio.Task[_Result]":
        """Run the work to its end, even without its client."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _scope_of(held: HoldReply) -> bytes:
    """Return the account; for a named key, the key itself: an answer for one key must not be told to another."""
    return hashlib.sha256(held.pubkey + held.key.to_bytes(4, "big")).digest() if held.key else held.pubkey


def _away(error: KeysUnavailable) -> Refusal:
    logger.warning("an Idempotency-Key cannot be looked up: %s", error)
    return _AWAY


def _free(admitted: AdmittedCall, refusal: Refusal, held: HoldReply) -> Replies:
    return _replies(Reply(admitted.id, None, refusal), held, None)


def _unrecorded(admitted: AdmittedCall, refusal: Refusal, held: HoldReply) -> Replies:
    """Reply without credits left, because the owner could not tell the outcome of the charge."""
    return Replies((Reply(admitted.id, None, refusal),), None, held.figures, payer=held.payer)


def _answered(
    admitted: AdmittedCall,
    answer: NodeAnswer,
    held: HoldReply,
    settled: SettleReply | None,
    posted: int = 0,
    operation: bytes = b"",
) -> Replies:
    """Reply without the charge: no owner refunds it, so nothing must be confirmed before the answer leaves."""
    reply = Reply(admitted.id, answer, None, posted=posted, operation=operation if posted else b"")
    return _replies(reply, held, settled)


def _replies(reply: Reply, held: HoldReply, settled: SettleReply | None) -> Replies:
    assert held.figures is not None
    told = held.figures.credits_remaining if settled is None else settled.credits_remaining
    reply.credits_remaining = told
    return Replies((reply,), None, held.figures, told, held.payer)
