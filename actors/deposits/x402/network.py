"""Calls to the node for x402 payments, and the meaning of its answers for a payment.

Implements: threat 25 (a send whose answer is lost is neither done nor failed); decisions, "Batches towards the node".
The shell around the nodes: every call has a time limit, a missing answer is a value, and no method raises.
x402/states.py decides what follows from an answer.
"""

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

import orjson

from actors.deposits.x402.states import Heights
from actors.upstream.replies import AnswerKind, Node, NodeAnswer, value_of
from actors.upstream.signature_status import SignatureStatus, signature_statuses, surest
from actors.upstream.single_nodes import OfEachNode
from actors.x402_types import BlockhashHint

_QUICK_MS, _WORK_MS = 1_000, 1_500
# JSON-RPC errors of sendTransaction that mean that this node did not pass the transaction on: preflight, signature,
# parameters. After any other error it may have done so.
_REFUSED_CODES = frozenset((-32002, -32003, -32600, -32602))
_TOKEN_INSUFFICIENT_FUNDS = 1  # The token program's own error number.


@unique
class Trial(Enum):
    """The result of a simulation."""

    GOOD = "good"
    ALREADY_LANDED = "already landed"
    NO_FEE_MONEY = "no fee money"  # The fee payer cannot pay the fee.
    NO_FUNDS = "no funds"  # The payer's token account does not hold the amount.
    NO_BLOCKHASH = "no blockhash"  # Too old, or newer than the newest that this node knows.
    BAD = "bad"
    NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class Tried:
    trial: Trial
    error: str = ""


@unique
class Sent(Enum):
    TAKEN = "taken"
    REFUSED = "refused"  # Not passed on: it can only land if another node gets it.
    UNKNOWN = "unknown"


class PaymentNetwork:
    """single_nodes: the nodes behind `node`, one by one; empty where `node` is a single one."""

    def __init__(self, node: Node, single_nodes: Sequence[Node] = ()) -> None:
        self._node = node
        self._of_each = OfEachNode(single_nodes, PaymentNetwork) if single_nodes else None

    def _each(self) -> "list[PaymentNetwork]":
        return (self._of_each.now() if self._of_each else []) or [self]

    async def latest_blockhash(self) -> BlockhashHint | None:
        found = await self._ask("getLatestBlockhash", [{"commitment": "confirmed"}], _QUICK_MS)
        try:
            return BlockhashHint(str(found["value"]["blockhash"]), int(found["value"]["lastValidBlockHeight"]))
        except (TypeError, KeyError, ValueError):
            return None

    async def simulate(self, transaction: bytes) -> Tried:
        """Simulate without a check of signatures:

        the sponsor's is still missing, and the payer's was checked before.
        """
        config = {"encoding": "base64", "sigVerify": False, "commitment": "processed"}
        answer = await self._call("simulateTransaction", [_base64(transaction), config], _WORK_MS)
        if answer.kind is AnswerKind.ERROR:
            return Tried(Trial.BAD, answer.error_message[:200])
        found = value_of(answer)
        if not isinstance(found, dict) or not isinstance(found.get("value"), dict):
            return Tried(Trial.NO_ANSWER)
        error = found["value"].get("err")
        return Tried(Trial.GOOD) if error is None else Tried(_trial_of(error), orjson.dumps(error).decode()[:200])

    async def send(self, transaction: bytes) -> Sent:
        """Send without a preflight, because it was just simulated. The node repeats the send for a while."""
        config = {"encoding": "base64", "skipPreflight": True}
        answer = await self._call("sendTransaction", [_base64(transaction), config], _WORK_MS)
        if answer.kind is AnswerKind.RESULT:
            return Sent.TAKEN
        if answer.kind is AnswerKind.ERROR and answer.error_code in _REFUSED_CODES:
            return Sent.REFUSED
        return Sent.UNKNOWN

    async def statuses(self, signatures: list[bytes], history: bool) -> list[SignatureStatus | None] | None:
        """Ask the nodes for the status of each signature (upstream/signature_status.py)."""
        return await signature_statuses(self._node, signatures, history, _QUICK_MS)

    async def search(self, signatures: list[bytes]) -> tuple[list[SignatureStatus | None], list[Heights]]:
        """Ask every node separately. Returns the surest status of each signature, and the heights of those nodes."""
        looks = await asyncio.gather(*(each._look(signatures) for each in self._each()))
        seen = [surest(found) for found in zip(*(found for found, _ in looks), strict=True)]
        return seen, [heights for _, heights in looks if heights is not None]

    async def _look(self, signatures: list[bytes]) -> tuple[list[SignatureStatus | None], Heights | None]:
        """Ask one node for its height, then the signatures, then its oldest slot; the order matters.

        The height comes first: a signature that is unknown afterwards did not land at or below it. The oldest slot
        comes last: history that the node removed meanwhile then counts as not searched.
        """
        height = await self._ask("getBlockHeight", [{"commitment": "finalized"}], _QUICK_MS)
        found = await self.statuses(signatures, history=True)
        first = await self._ask("getFirstAvailableBlock", [], _QUICK_MS)
        if found is None:
            return [None] * len(signatures), None
        return found, Heights(height, first) if isinstance(height, int) and isinstance(first, int) else None

    async def lamports(self, pubkey: str) -> int | None:
        found = await self._ask("getBalance", [pubkey, {"commitment": "confirmed"}], _QUICK_MS)
        try:
            return int(found["value"])
        except (TypeError, KeyError, ValueError):
            return None

    async def _call(self, method: str, params: list[Any], timeout_ms: int) -> NodeAnswer:
        return await self._node.call(method, orjson.dumps(params), timeout_ms)

    async def _ask(self, method: str, params: list[Any], timeout_ms: int) -> Any:
        """Return the result as Python values; None when the call failed."""
        return value_of(await self._call(method, params, timeout_ms))


def _trial_of(error: Any) -> Trial:
    if error == "AlreadyProcessed":
        return Trial.ALREADY_LANDED
    if error == "BlockhashNotFound":
        return Trial.NO_BLOCKHASH
    # The fee payer has no account, or too little in it.
    if error in ("AccountNotFound", "InsufficientFundsForFee") or _names(error, "InsufficientFundsForRent"):
        return Trial.NO_FEE_MONEY
    if _names(error, "InstructionError"):
        why = error["InstructionError"][-1] if isinstance(error["InstructionError"], list) else None
        if why == {"Custom": _TOKEN_INSUFFICIENT_FUNDS} or why == "InsufficientFunds":
            return Trial.NO_FUNDS
    return Trial.BAD


def _names(error: Any, variant: str) -> bool:
    return isinstance(error, dict) and variant in error


def _base64(transaction: bytes) -> str:
    return base64.b64encode(transaction).decode()
