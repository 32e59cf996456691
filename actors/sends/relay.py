"""Answers what customers ask the block engine, in every replica: bundles, their states, tip accounts, the tip floor.

Implements: interface, "Bundle relay"; decisions, "relay bodies" (the engine's own results, unchanged).
A shell. The racer asks the engine, as one process of the cluster keeps the engine's rate limit. Signatures and the
number of transactions were checked before the hold (methods/bundles.py). The tip is checked here, because the
engine tells its tip accounts; a call without a tip is refused, and its hold released.
"""

import base64
import hashlib
import logging
from collections.abc import Iterable
from typing import Protocol

import msgspec
import orjson

from actors.errors import Err, Refusal
from actors.methods.bundles import BundleQuestion, BundleStatusQuestion, RelayedSendQuestion
from actors.methods.transactions import whole_transaction
from actors.sends.api import RacerUnreachable
from actors.sends.engine import EngineAnswer, EngineAway, EngineCall
from actors.sends.tips import lacking_tip
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, MethodHandler, NodeAnswer, RelayedAnswer

logger = logging.getLogger(__name__)

_BASE64 = {"encoding": "base64"}
_BUSY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the block engine takes no more requests at the moment")


class Engine(Protocol):
    """The block engine, as api.SendsClient reaches it."""

    @property
    def tip_accounts(self) -> tuple[str, ...]: ...

    async def ask_engine(self, call: EngineCall) -> EngineAnswer | EngineAway:
        """Raises RacerUnreachable."""
        ...


class RelayMethods:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def handlers(self) -> dict[str, MethodHandler]:
        """By the names of prices.RELAY. Parameters are a question of methods/bundles.py as JSON."""
        return {
            "sendBundle": self._send_bundle,
            "relay/sendTransaction": self._send,
            "relay/getBundleStatuses": lambda params, ms: self._statuses("getBundleStatuses", params, ms),
            "relay/getInflightBundleStatuses": lambda params, ms: self._statuses(
                "getInflightBundleStatuses", params, ms
            ),
            "relay/getTipAccounts": lambda _, ms: self._ask(EngineCall("getTipAccounts", b"[]", ms)),
            "relay/tipFloor": lambda _, ms: self._ask(EngineCall("tipFloor", b"[]", ms)),
        }

    async def _send_bundle(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        texts = msgspec.json.decode(params, type=BundleQuestion).transactions
        lack = lacking_tip(map(base64.b64decode, texts), self._engine.tip_accounts)
        if lack:
            return replies.refused(Refusal(Err.INVALID_PARAMS, f"the bundle has no tip: {lack}"))
        identifier = _bundle_id(map(base64.b64decode, texts))
        params = orjson.dumps([texts, _BASE64])
        return await self._ask(EngineCall("sendBundle", params, timeout_ms, bundle_id=identifier))

    async def _send(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked = msgspec.json.decode(params, type=RelayedSendQuestion)
        lack = lacking_tip((base64.b64decode(asked.transaction),), self._engine.tip_accounts)
        if lack:
            return replies.refused(Refusal(Err.INVALID_PARAMS, f"the transaction has no tip: {lack}"))
        sent = orjson.dumps([asked.transaction, _BASE64])
        identifier = _bundle_id((base64.b64decode(asked.transaction),)) if asked.bundle_only else ""
        return await self._ask(EngineCall("sendTransaction", sent, timeout_ms, asked.bundle_only, identifier))

    async def _statuses(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        bundle_ids = msgspec.json.decode(params, type=BundleStatusQuestion).bundle_ids
        return await self._ask(EngineCall(method, orjson.dumps([bundle_ids]), timeout_ms, bundle_id=bundle_ids[0]))

    async def _ask(self, call: EngineCall) -> NodeAnswer:
        try:
            found = await self._engine.ask_engine(call)
        except RacerUnreachable as error:
            logger.warning("the racer did not answer: %s", error)
            return replies.UNREACHABLE
        if isinstance(found, EngineAway):
            if found.busy:
                return replies.refused(_BUSY)
            return replies.TIMED_OUT if found.late else replies.UNREACHABLE
        if found.status == 429:  # The limit is of this service, not of the customer.
            return replies.refused(_BUSY)
        if found.status >= 500:
            return replies.UNREACHABLE
        answer = replies.judge(found.body)
        if answer.kind is not AnswerKind.RESULT and answer.kind is not AnswerKind.ERROR:
            return answer
        fields = {name: getattr(answer, name) for name in NodeAnswer.__struct_fields__}
        return RelayedAnswer(**fields, http=found.status, bundle_id=found.bundle_id)


def _bundle_id(transactions: Iterable[bytes]) -> str:
    """Compute the id that the engine gives a bundle. It only chooses who is asked: the racer, and the region, that sent
    a bundle know its state. The id that customers get is the engine's own."""
    signatures = (str(whole_transaction(raw).signatures[0]) for raw in transactions)
    return hashlib.sha256(",".join(signatures).encode()).hexdigest()
