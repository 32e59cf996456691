"""Carries out a sendAndConfirm that may go on as a task, and answers the clients that poll it.

Implements: extension io.modelcontextprotocol/tasks 2026-07-28; decisions, "MCP tasks". A shell: tasks.py has the rules.

The call runs apart from its request, under a key of idempotency, and is answered as ever when it ends soon. If it does
not, and getSendStatus knows it, which means that it is stored, its client gets a task.
"""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Callable

import msgspec
import orjson

from actors.calls import HoldReply, Proof, ProvenProof
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.idempotent import IdempotentCalls
from actors.gateway.calls.jsonrpc import Call
from actors.gateway.calls.large_requests import AnyCall, admitted
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.proven_callers import ProvenCallers
from actors.gateway.calls.requests import Client
from actors.gateway.doors.mcp.messages import TaskCall
from actors.gateway.doors.mcp.tasks import Task, TaskIds
from actors.methods.sends import RaceQuestion
from actors.methods.transactions import whole_transaction
from actors.units import base58_text
from actors.upstream.replies import AnswerKind, value_of

logger = logging.getLogger(__name__)

METHOD = "sendAndConfirm"
SOON_SECONDS = 2.0  # A landing takes about 1 s, so most calls are answered without a task.
_KEY_BYTES = 16
_NO_TASK = Refusal(Err.INVALID_PARAMS, "this account has no task of this id")


class TaskState(msgspec.Struct, frozen=True):
    """status: the result of getSendStatus; None: the task has just begun. done: with the account's figures."""

    task: Task
    status: dict[str, object] | None
    done: Replies


class LongSends:
    """randomness: returns this many random bytes."""

    def __init__(
        self,
        cluster_secret: bytes,
        callers: ProvenCallers,
        pipeline: Pipeline,
        keyed: IdempotentCalls,
        clock: Clock,
        randomness: Callable[[int], bytes],
    ) -> None:
        self._ids, self._callers, self._pipeline, self._keyed = TaskIds(cluster_secret), callers, pipeline, keyed
        self._clock, self._randomness = clock, randomness
        self._runs: set[asyncio.Task[Replies]] = set()

    @property
    def are_offered(self) -> bool:
        """Return whether a call can outlive its request here."""
        return self._keyed.keeps and METHOD in self._pipeline.plans

    def may_go_on(self, proof: Proof, call: AnyCall) -> AdmittedCall | None:
        """Return the call if it may become a task. proof: of its caller."""
        if not self.are_offered or not isinstance(call, Call | AdmittedCall):
            return None
        if (call.method if isinstance(call, Call) else call.plan.method) != METHOD:
            return None
        end = admitted(call, self._pipeline.prices.plans_for(proof, (call,)))
        return end if isinstance(end, AdmittedCall) else None

    async def run(
        self, proof: Proof, call: AdmittedCall, key: bytes | None, client: Client | None
    ) -> Replies | TaskState:
        """Run a call until it ends, or until it is known to continue by itself."""
        payer = await self._proven(proof, client)
        if isinstance(payer, Replies):
            return payer
        key = key or b"mcp-task-" + self._randomness(_KEY_BYTES).hex().encode()
        raw = b64decode(msgspec.json.decode(call.params, type=RaceQuestion).transaction)
        task = self._ids.make(_account(payer), bytes(whole_transaction(raw).signatures[0]), self._clock.now())
        run = asyncio.get_running_loop().create_task(self._keyed.single(payer, call, key, client))
        self._runs.add(run)
        run.add_done_callback(self._ended)
        while True:
            await asyncio.wait({run}, timeout=SOON_SECONDS)
            if run.done():
                return run.result()
            found = await self._status(payer, task, client)
            if isinstance(found, TaskState):
                return TaskState(task, None, found.done)

    async def answer(self, proof: Proof, asked: TaskCall, client: Client | None) -> Replies | TaskState:
        """The state of the task that a message is about, whatever the message wants of it: a send cannot be called
        back, and asks for nothing."""
        payer = await self._proven(proof, client)
        if isinstance(payer, Replies):
            return payer
        task = self._ids.read(asked.task_id, _account(payer))
        if task is None:
            return Replies((), _NO_TASK, None)
        return await self._status(payer, task, client)

    async def _proven(self, proof: Proof, client: Client | None) -> ProvenProof | Replies:
        if isinstance(proof, ProvenProof):
            return proof
        held = await self._callers.proven(proof, client)
        return held.payer if isinstance(held, HoldReply) else held

    async def _status(self, payer: ProvenProof, task: Task, client: Client | None) -> Replies | TaskState:
        """By getSendStatus, which is free and takes a rate unit. Replies: it refused, or does not know the send."""
        signature = base58_text(task.signature)
        ask = Call(b"null", "getSendStatus", orjson.dumps([signature]), [signature])
        done = await self._pipeline.single(payer, ask, client)
        if done.refusal is not None or done.items[0].refusal is not None:
            return done
        answer = done.items[0].answer
        if answer is None or answer.kind is not AnswerKind.RESULT:
            return Replies((), Refusal(Err.BACKEND_UNAVAILABLE), done.figures, done.credits_remaining)
        return TaskState(task, value_of(answer), done)

    def _ended(self, run: "asyncio.Task[Replies]") -> None:
        self._runs.discard(run)
        if not run.cancelled() and run.exception() is not None:
            logger.error("a send that goes on as a task failed", exc_info=run.exception())


def _account(payer: ProvenProof) -> bytes:
    return payer.pubkey + payer.key.to_bytes(4, "big")
