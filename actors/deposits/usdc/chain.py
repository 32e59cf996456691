"""The watcher's calls to a node, at finalized commitment: a fork may still drop a transaction that is not final.

Implements: getSignaturesForAddress and getTransaction as Agave answers them; threat 23 ("unfinalised then forked out").
The shell around one node. Raises ChainUnavailable when the node does not answer, and concludes nothing from that.
"""

from typing import Any, NamedTuple

import base58
import orjson

from actors.units import base58_text
from actors.upstream.replies import AnswerKind, Node

PAGE_MAX = 1_000
_ASK_MS = 10_000
_UNKNOWN_POSITION = -32020  # `before` or `until` names a signature that the node does not know.
_SIGNATURE_BYTES = 64


class ChainUnavailable(Exception):
    """The node did not answer. The text names the method."""


class UnknownPosition(Exception):
    """The node does not know the signature at which a page should begin or end."""


class Seen(NamedTuple):
    """A finalized transaction that touches the deposit account."""

    signature: bytes
    slot: int
    block_time: int | None
    failed: bool


class Known(NamedTuple):
    """The state of a transaction that is not final, or that the node knows only by its status."""

    level: str  # Commitment: processed, confirmed, or finalized.
    failed: bool


class DepositChain:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def page(self, account: str, before: bytes | None, until: bytes | None) -> list[Seen]:
        """List signatures, newest first, at most PAGE_MAX. Raises UnknownPosition and ChainUnavailable."""
        config: dict[str, Any] = {"limit": PAGE_MAX, "commitment": "finalized"}
        if before is not None:
            config["before"] = base58_text(before)
        if until is not None:
            config["until"] = base58_text(until)
        rows = await self._ask("getSignaturesForAddress", [account, config])
        try:
            return [
                Seen(signature_of(row["signature"]), int(row["slot"]), row.get("blockTime"), row["err"] is not None)
                for row in rows
            ]
        except (TypeError, KeyError, ValueError) as error:
            raise ChainUnavailable("getSignaturesForAddress: not a list of transactions") from error

    async def transaction(self, signature: bytes) -> dict[str, Any] | None:
        """Return a getTransaction result. None: the node has no final transaction with this signature."""
        config = {"encoding": "json", "maxSupportedTransactionVersion": 1, "commitment": "finalized"}
        found = await self._ask("getTransaction", [base58_text(signature), config])
        if found is None or isinstance(found, dict):
            return found
        raise ChainUnavailable("getTransaction: not a transaction")

    async def known(self, signature: bytes) -> Known | None:
        text = base58_text(signature)
        found = await self._ask("getSignatureStatuses", [[text], {"searchTransactionHistory": True}])
        try:
            (row,) = found["value"]
            if row is None:
                return None
            return Known(row.get("confirmationStatus") or "processed", row.get("err") is not None)
        except (TypeError, KeyError, ValueError) as error:
            raise ChainUnavailable("getSignatureStatuses: not a status") from error

    async def slot(self) -> int:
        """Return the newest final slot."""
        found = await self._ask("getSlot", [{"commitment": "finalized"}])
        if not isinstance(found, int):
            raise ChainUnavailable("getSlot: not a slot")
        return found

    async def has_block_from(self, slot: int) -> bool:
        """Return whether there is a final block in this slot or after it."""
        found = await self._ask("getBlocksWithLimit", [slot, 1, {"commitment": "finalized"}])
        if not isinstance(found, list):
            raise ChainUnavailable("getBlocksWithLimit: not a list of slots")
        return bool(found)

    async def first_slot(self) -> int:
        """Return the oldest block that the node still has."""
        found = await self._ask("getFirstAvailableBlock", [])
        if not isinstance(found, int):
            raise ChainUnavailable("getFirstAvailableBlock: not a slot")
        return found

    async def _ask(self, method: str, params: list[Any]) -> Any:
        answer = await self._node.call(method, orjson.dumps(params), _ASK_MS)
        if answer.kind is AnswerKind.ERROR and answer.error_code == _UNKNOWN_POSITION:
            raise UnknownPosition(answer.error_message)
        if answer.kind is not AnswerKind.RESULT:
            raise ChainUnavailable(f"{method}: {answer.kind.name.lower()} {answer.error_message[:200]}".rstrip())
        try:
            return orjson.loads(answer.value())
        except orjson.JSONDecodeError as error:
            raise ChainUnavailable(f"{method}: not JSON") from error


def signature_of(text: str) -> bytes:
    """Decode a signature. Raises ValueError for anything but the base58 text of 64 bytes."""
    # The library skips white space, so without this check one signature would have several texts.
    if not 64 <= len(text) <= 88 or not text.isalnum():
        raise ValueError("not a signature")
    raw = bytes(base58.b58decode(text))
    if len(raw) != _SIGNATURE_BYTES:
        raise ValueError("not a signature")
    return raw
