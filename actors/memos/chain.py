"""Calls to nodes for memos: blockhash, send, look, and the list of what a key has paid for.

Implements: decisions, "Signed roots" (memos on the chain). A shell: a missing answer is a value, and no method raises,
but for the two that an audit uses.
"""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import orjson
from solders.transaction import VersionedTransaction

from actors.memos.core import Look
from actors.units import base58_text
from actors.upstream.replies import AnswerKind, Node, value_of
from actors.upstream.signature_status import is_count, signature_statuses, surest

_QUICK_MS, _LONG_MS = 3_000, 10_000
_PAGE, _AT_ONCE = 1_000, 16
_TRIES, _PAUSE_SECONDS = 3, 1.0


class NoAnswer(Exception):
    """The node did not answer an auditor's question; one sentence."""


class Paid(NamedTuple):
    """A final transaction. block_seconds: time of its block; 0: the node does not tell. fee: lamports."""

    signature: str
    slot: int
    block_seconds: int
    fee: int
    transaction: VersionedTransaction


class MemoChain:
    """single_nodes: the nodes behind `node`, one by one; empty where it is a single one."""

    def __init__(self, node: Node, single_nodes: Sequence[Node] = ()) -> None:
        self._node, self._single_nodes = node, single_nodes or [node]

    async def blockhash(self) -> tuple[str, int] | None:
        """Return a fresh blockhash, and the last block height at which it is valid."""
        found = await self._ask("getLatestBlockhash", [{"commitment": "confirmed"}])
        try:
            blockhash, valid_to = str(found["value"]["blockhash"]), found["value"]["lastValidBlockHeight"]
        except (TypeError, KeyError):
            return None
        return (blockhash, valid_to) if is_count(valid_to) else None

    async def send(self, transaction: bytes) -> str | None:
        """Send. None: a node has taken it. Otherwise the reason, or that no node answered; it may still land."""
        params = [base64.b64encode(transaction).decode(), {"encoding": "base64", "preflightCommitment": "confirmed"}]
        answer = await self._node.call("sendTransaction", orjson.dumps(params), _QUICK_MS)
        if answer.kind is AnswerKind.RESULT:
            return None
        return answer.error_message[:200] if answer.kind is AnswerKind.ERROR else f"no answer ({answer.kind.name})"

    async def look(self, signature: bytes) -> Look:
        """Ask every node separately, for its height before the signature: a signature unknown afterwards has not landed
        up to that height."""
        looks = await asyncio.gather(*(_look(node, signature) for node in self._single_nodes))
        heights = [look.height for look in looks if look.height is not None]
        return Look(surest(look.status for look in looks), max(heights, default=None))

    async def fee(self, signature: bytes) -> int | None:
        """Return the chain's charge for a final transaction; None: the node does not give it yet."""
        config = {"encoding": "base64", "commitment": "finalized", "maxSupportedTransactionVersion": 0}
        found = await self._ask("getTransaction", [base58_text(signature), config])
        try:
            return int(found["meta"]["fee"])
        except (TypeError, KeyError, ValueError):
            return None

    async def lamports(self, pubkey: str) -> int | None:
        found = await self._ask("getBalance", [pubkey, {"commitment": "confirmed"}])
        try:
            return int(found["value"])
        except (TypeError, KeyError, ValueError):
            return None

    async def paid_by(self, pubkey: str) -> AsyncIterator[Paid]:
        """Yield the final transactions with a memo and without an error that name this key, newest first, as far back
        as the node has them. Raises NoAnswer."""
        before: str | None = None
        while True:
            config: dict[str, Any] = {"limit": _PAGE, "commitment": "finalized"}
            if before is not None:
                config["before"] = before
            page = await self._surely("getSignaturesForAddress", [pubkey, config])
            named = [row["signature"] for row in page if row["err"] is None and row.get("memo") is not None]
            for start in range(0, len(named), _AT_ONCE):
                for paid in await asyncio.gather(*map(self._paid, named[start : start + _AT_ONCE])):
                    yield paid
            if len(page) < _PAGE:
                return
            before = page[-1]["signature"]

    async def _paid(self, signature: str) -> Paid:
        config = {"encoding": "base64", "commitment": "finalized", "maxSupportedTransactionVersion": 0}
        found = await self._surely("getTransaction", [signature, config])
        try:
            raw = base64.b64decode(found["transaction"][0])
            return Paid(
                signature,
                found["slot"],
                found["blockTime"] or 0,
                found["meta"]["fee"],
                VersionedTransaction.from_bytes(raw),
            )
        except (TypeError, KeyError, ValueError, binascii.Error):
            raise NoAnswer(
                f"the node has no transaction {signature}, which it lists: ask one with the history"
            ) from None

    async def _surely(self, method: str, params: list[Any]) -> Any:
        """Return the result, retrying a few refused calls. Raises NoAnswer."""
        for tried in range(_TRIES):
            if tried:
                await asyncio.sleep(_PAUSE_SECONDS)
            answer = await self._node.call(method, orjson.dumps(params), _LONG_MS)
            if answer.kind is AnswerKind.RESULT:
                return orjson.loads(answer.value())
        raise NoAnswer(f"the node did not answer {method} ({answer.error_message or answer.kind.name})")

    async def _ask(self, method: str, params: list[Any]) -> Any:
        """Return the result; None when the call failed."""
        return value_of(await self._node.call(method, orjson.dumps(params), _QUICK_MS))


async def _look(node: Node, signature: bytes) -> Look:
    height = value_of(await node.call("getBlockHeight", b'[{"commitment":"finalized"}]', _QUICK_MS))
    found = await signature_statuses(node, [signature], True, _QUICK_MS)
    if found is None:
        return Look(None, None)
    return Look(found[0], height if found[0] is None and is_count(height) else None)
