"""The paths on which a transaction leaves: the port, our own node, and the block engine.

Implements: interface, sendAndConfirm ("Legs": local RPC, a bundle-relay leg, direct TPU QUIC).
Shells: each has a time limit and raises nothing. Not here: the TPU (tpu.py), when something is sent (core.py).
"""

from dataclasses import dataclass
from typing import Protocol

import orjson

from actors.clock import Clock
from actors.methods.signed_transactions import SignedTransaction
from actors.sends.chain import base64_text
from actors.sends.engine import EngineAnswer, EngineUnavailable, error_of
from actors.upstream.replies import NOT_SENT, AnswerKind, Node, RefusedAnswer

LEG_MS = 2_000  # A leg that has not answered in this time has not acknowledged.
LOCAL_RPC, JITO, TPU_QUIC = "local_rpc", "jito", "tpu_quic"
LEG_NAMES = (LOCAL_RPC, JITO, TPU_QUIC)


@dataclass(frozen=True, slots=True)
class Submission:
    """submitted_ms: Unix milliseconds at which the bytes left; None: they did not. acknowledged_ms: the other side said
    that it has them. error: why not, empty where there was nothing wrong. refused: the other side answered with an
    error, so it does not pass the transaction on."""

    submitted_ms: int | None
    acknowledged_ms: int | None = None
    error: str = ""
    refused: bool = False


class Leg(Protocol):
    name: str

    def takes(self, transaction: SignedTransaction) -> bool:
        """Return whether the leg takes this transaction; otherwise it is not attempted."""
        ...

    async def send(self, transaction: SignedTransaction) -> Submission: ...

    async def close(self) -> None: ...


class LocalRpcLeg:
    """The node sends once, because the race decides about sending again."""

    name = LOCAL_RPC

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node, self._clock = node, clock

    def takes(self, transaction: SignedTransaction) -> bool:
        return True

    async def send(self, transaction: SignedTransaction) -> Submission:
        config = {"encoding": "base64", "skipPreflight": True, "maxRetries": 0}
        params = orjson.dumps([base64_text(transaction.raw), config])
        began_ms = self._clock.now_ms()
        answer = await self._node.call("sendTransaction", params, LEG_MS)
        if answer.kind is AnswerKind.RESULT:
            return Submission(began_ms, self._clock.now_ms())
        if answer.kind is AnswerKind.ERROR:
            return Submission(began_ms, None, f"{answer.error_code}: {answer.error_message}"[:200], refused=True)
        if isinstance(answer, RefusedAnswer):
            return Submission(began_ms, None, "429: the node takes no more calls", refused=True)
        if answer == NOT_SENT:
            return Submission(None, None, "no connection")
        return Submission(began_ms, None, answer.kind.name.lower())

    async def close(self) -> None:
        pass


class TransactionEngine(Protocol):
    """A block engine, or several as one."""

    @property
    def known_tip_accounts(self) -> tuple[str, ...]: ...

    async def send_transaction(self, raw: bytes, timeout_ms: int) -> EngineAnswer:
        """Raises EngineUnavailable."""
        ...

    async def close(self) -> None: ...


class JitoLeg:
    """Takes only transactions with a tip: the engine refuses all others, and each request counts against its rate."""

    name = JITO

    def __init__(self, engine: TransactionEngine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def takes(self, transaction: SignedTransaction) -> bool:
        return transaction.writes_one_of(self._engine.known_tip_accounts)

    async def send(self, transaction: SignedTransaction) -> Submission:
        began_ms = self._clock.now_ms()
        try:
            answer = await self._engine.send_transaction(transaction.raw, LEG_MS)
        except EngineUnavailable as error:
            return Submission(began_ms if error.sent else None, None, str(error))
        said = error_of(answer)
        return Submission(began_ms, None if said else self._clock.now_ms(), said, refused=bool(said))

    async def close(self) -> None:
        await self._engine.close()
