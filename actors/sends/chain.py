"""Queries of races to the nodes: slots, heights, statuses with and without history, nonces, simulations.

Implements: decisions, "expired send" (proof); getSignatureStatuses and the expiry of blockhashes as Agave has them. The
shell around the nodes: every call has a time limit, no answer is a value, and no method raises. core.py decides what
follows from an answer.
"""

import asyncio
import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson

from actors.gathered import Gathered
from actors.sends.core import Present, Proof
from actors.units import base58_text
from actors.upstream.replies import Node, NodeAnswer, value_of
from actors.upstream.signature_status import (
    STATUSES_MAX,
    SignatureStatus,
    is_count,
    signature_statuses,
    surest,
)
from actors.upstream.single_nodes import OfEachNode

_QUICK_MS, _WORK_MS = 1_500, 5_000
_TRIES = 3
_Look = tuple[
    SignatureStatus | None, Proof | None
]  # One node's answer about a signature: its status, or what proves that the node does not know it.
_NONCE_FROM, _NONCE_TO = 40, 72  # The stored nonce in the data of a nonce account: version, state, authority, nonce.


class SendChain:
    """single_nodes: the nodes behind `node`, one by one; empty where `node` is a single one."""

    def __init__(self, node: Node, single_nodes: Sequence[Node] = ()) -> None:
        self.node = node
        self._of_each = OfEachNode(single_nodes, SendChain) if single_nodes else None
        self._present: dict[bytes, asyncio.Task[Present | None]] = {}
        self._recent = Gathered[bytes, SignatureStatus | None](partial(self._statuses, False), STATUSES_MAX)
        self._old = Gathered[bytes, SignatureStatus | None](partial(self._statuses, True), STATUSES_MAX)
        self._looks = Gathered[tuple[bytes, str | None], _Look](self._look, STATUSES_MAX)

    def _each(self) -> "list[SendChain]":
        return (self._of_each.now() if self._of_each else []) or [self]

    @property
    def nodes(self) -> int:
        """Return how many nodes `search` asks."""
        return len(self._each())

    async def slot(self) -> int | None:
        """Ask for the slot at processed commitment."""
        found = await self._ask("getSlot", [{"commitment": "processed"}])
        return found if is_count(found) else None

    async def present(self, blockhash: bytes) -> Present | None:
        """Ask where the chain is, and whether it knows a blockhash; a node that lags may not. The answers may be of two
        nodes: a blockhash that one of them knows may be newer than the block of the other, by a block for each slot.
        Callers with the same blockhash share the questions that are under way: many are signed with the newest one.
        """
        asking = self._present.get(blockhash)
        if asking is None:
            asking = self._present[blockhash] = asyncio.create_task(self._ask_present(blockhash))
            asking.add_done_callback(lambda _: self._present.pop(blockhash, None))
        return await asyncio.shield(asking)

    async def _ask_present(self, blockhash: bytes) -> Present | None:
        processed = {"commitment": "processed"}
        known = self._insist("isBlockhashValid", [base58_text(blockhash), processed])
        info, validity = await asyncio.gather(self._insist("getEpochInfo", [processed]), known)
        try:
            slot, height, asked_slot = info["absoluteSlot"], info["blockHeight"], validity["context"]["slot"]
            knows = validity["value"] is True
        except (TypeError, KeyError):
            return None
        if not (is_count(slot) and is_count(height) and is_count(asked_slot)):
            return None
        return Present(slot, height + max(0, asked_slot - slot), knows)

    async def statuses(self, signatures: Sequence[bytes], history: bool = False) -> list[SignatureStatus | None] | None:
        """Ask the nodes for the status of each signature (upstream/signature_status.py)."""
        return await signature_statuses(self.node, signatures, history, _QUICK_MS)

    async def status(self, signature: bytes, history: bool = False) -> SignatureStatus | None:
        """Ask for one status; callers of one moment share a question. None: the nodes do not know it, or did not
        answer."""
        return await (self._old if history else self._recent).ask(signature)

    async def _statuses(self, history: bool, signatures: Sequence[bytes]) -> Sequence[SignatureStatus | None]:
        return await self.statuses(signatures, history) or [None] * len(signatures)

    async def search(self, signature: bytes, nonce_account: str | None) -> tuple[SignatureStatus | None, list[Proof]]:
        """Ask every node by itself. Gives the best status, and the proof of each node that does not know it. Callers of
        one moment share the questions."""
        asked = signature, nonce_account
        looks = await asyncio.gather(*(each._looks.ask(asked) for each in self._each()))
        return surest(one for one, _ in looks), [proof for _, proof in looks if proof is not None]

    async def _look(self, asked: "Sequence[tuple[bytes, str | None]]") -> "Sequence[_Look]":
        """Ask one node. The order matters: what is unknown after the height did not land at or below it; history that
        the node drops meanwhile counts as not searched."""
        height = await self._ask("getBlockHeight", [{"commitment": "finalized"}])
        accounts = {account for _, account in asked if account is not None}
        told = await asyncio.gather(*map(self._nonce, accounts))
        nonces = dict(zip(accounts, told, strict=True))
        found = await self.statuses([signature for signature, _ in asked], history=True)
        first = await self._ask("getFirstAvailableBlock", [])
        if found is None:
            return [(None, None)] * len(asked)
        proves = is_count(height) and is_count(first)
        return [
            (seen, Proof(height, first, nonces.get(account or "")) if proves and seen is None else None)
            for seen, (_, account) in zip(found, asked, strict=True)
        ]

    async def _nonce(self, account: str) -> bytes | None:
        """Read a nonce. Empty: there is no such nonce account. None: the node did not answer."""
        found = await self._ask("getAccountInfo", [account, {"encoding": "base64", "commitment": "finalized"}])
        try:
            value = found["value"]
            return b"" if value is None else base64.b64decode(value["data"][0])[_NONCE_FROM:_NONCE_TO]
        except (TypeError, KeyError, IndexError, ValueError):
            return None

    async def simulate(self, transaction: bytes, commitment: str, timeout_ms: int = _WORK_MS) -> NodeAnswer:
        """Simulate, with a check of the signatures."""
        config = {"encoding": "base64", "sigVerify": True, "commitment": commitment}
        return await self._call("simulateTransaction", [base64_text(transaction), config], timeout_ms)

    async def _call(self, method: str, params: list[Any], timeout_ms: int = _QUICK_MS) -> NodeAnswer:
        return await self.node.call(method, orjson.dumps(params), timeout_ms)

    async def _insist(self, method: str, params: list[Any]) -> Any:
        """Ask up to three times: a send that is refused because its node was briefly busy may be too late for good."""
        for _ in range(_TRIES - 1):
            if (found := await self._ask(method, params)) is not None:
                return found
        return await self._ask(method, params)

    async def _ask(self, method: str, params: list[Any]) -> Any:
        """Ask, and return the result as Python values; None when the call failed."""
        return value_of(await self._call(method, params))


def base64_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
