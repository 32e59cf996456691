"""sendTransaction, sendSmartTransaction, sendAndConfirm and getSendStatus: from checked parameters to replies.

Implements: interface, sendSmartTransaction, sendAndConfirm and its result; decisions, `getSendStatus`.
A shell in every replica. Parameters were checked before (methods/sends.py), and the hold of a sendAndConfirm
belongs to the racer from the moment at which it is asked.
"""

import base64
import logging
import re
from typing import Any, Protocol

import base58
import msgspec
import orjson

from actors.calls import SettleRequest
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.methods.sends import RaceQuestion, SendStatusQuestion, SmartSendQuestion
from actors.methods.signed_transactions import decode_signed, signed_transaction
from actors.sends.api import (
    NO_ROOM,
    RaceRefused,
    RaceResult,
    RacerUnreachable,
    WantedRace,
    result_body,
    status_body,
    unheard_body,
)
from actors.sends.chain import SendChain
from actors.sends.once import SendMarks, SentOnce
from actors.units import base58_text
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer, value_of

logger = logging.getLogger(__name__)

_SIMULATE_MS = 5_000
_NOT_SENT_HERE = Refusal(Err.INVALID_PARAMS, "this account has sent no transaction of this signature")
_FAILED_PROGRAM = re.compile(r"Program [1-9A-HJ-NP-Za-km-z]+ failed: (.+)", re.DOTALL)  # As the node logs it.


class Racer(Protocol):
    """The racer, as api.SendsClient reaches it. Every method raises RacerUnreachable."""

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused: ...

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None: ...

    async def has_sent(self, signature: bytes) -> bool: ...


class SendMethods:
    """base_credits: what a send costs that does not land. marks: of all replicas; None: there is one."""

    def __init__(
        self,
        racer: Racer,
        chain: SendChain,
        base_credits: int,
        clock: Clock,
        marks: SendMarks | None = None,
    ) -> None:
        self._racer, self._chain, self._base = racer, chain, base_credits
        self._clock, self._once = clock, SentOnce(racer.has_sent, marks)

    def handlers(self) -> dict[str, replies.MethodHandler]:
        return {"sendTransaction": self._send, "sendSmartTransaction": self._smart_send}

    def caller_handlers(self) -> dict[str, replies.CallerHandler]:
        """Handlers that must know whose call it is. Each takes a question of methods/sends.py as JSON."""
        return {"sendAndConfirm": self._send_and_confirm, "getSendStatus": self._status}

    async def _send_and_confirm(
        self, params: bytes, hold: SettleRequest, timeout_ms: int, base: int | None = None
    ) -> NodeAnswer:
        """base: price for this account if it does not land; None: the public one."""
        del timeout_ms  # The window of a race ends within the time of its class.
        asked = msgspec.json.decode(params, type=RaceQuestion)
        raw = base64.b64decode(asked.transaction)
        if asked.preflight is not None:
            refused = await self._preflight(raw, asked.preflight)
            if refused is not None:
                return refused
        base = min(self._base if base is None else base, hold.ceiling)
        wanted = WantedRace(raw, hold.operation, hold.pubkey, hold.epoch, hold.method, hold.ceiling, base, hold.key)
        signature = signed_transaction(raw).signature
        self._once.race_begins(signature)
        try:
            found = await self._racer.race(wanted)
        except RacerUnreachable as error:
            # The racer may have the call, and then ends the hold; otherwise the hold expires.
            logger.warning("the racer did not answer: %s", error)
            body = unheard_body(base58_text(signature), hold.ceiling)
            return replies.made_deferred(orjson.dumps(body))
        if isinstance(found, RaceRefused):
            logger.warning("a send was refused: %s", found.reason)
            self._once.race_refused(signature)
            if found.crowded:
                return replies.refused(Refusal(Err.CONCURRENCY_LIMITED, found.reason))
            if found.reason == NO_ROOM:
                return replies.refused(Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, found.reason))
            return replies.UNREACHABLE
        body = result_body(found, base58_text(found.race.signature))
        final = body["status"] in ("confirmed", "failed")
        return replies.made_deferred(orjson.dumps(body), final, posted=found.ticket.charged or 0)

    async def _status(self, params: bytes, hold: SettleRequest, timeout_ms: int) -> NodeAnswer:
        del timeout_ms
        asked = msgspec.json.decode(params, type=SendStatusQuestion)
        try:
            found = await self._racer.status(base58.b58decode(asked.signature), hold.pubkey)
        except RacerUnreachable as error:
            logger.warning("the racer did not answer: %s", error)
            return replies.UNREACHABLE
        if found is None:
            return replies.refused(_NOT_SENT_HERE)
        return replies.made(orjson.dumps(status_body(found, asked.signature)))

    async def _send(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Send as the node does; the same bytes again within a window are the same send."""
        text, *rest = orjson.loads(params)
        encoding = rest[0].get("encoding") if rest and rest[0] else None
        signature = decode_signed(text, encoding or "base58").signature
        return await self._once.send(
            signature,
            params,
            lambda: self._chain.node.call("sendTransaction", params, timeout_ms),
            self._clock.monotonic(),
        )

    async def _smart_send(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Send through our node, which keeps resending by itself; the answer is the signature, at once."""
        asked = msgspec.json.decode(params, type=SmartSendQuestion)
        if asked.simulate:
            refused = await self._preflight(base64.b64decode(asked.transaction), "confirmed")
            if refused is not None:
                return refused
        sent = orjson.dumps([asked.transaction, {"encoding": "base64", "skipPreflight": True}])
        signature = signed_transaction(base64.b64decode(asked.transaction)).signature
        return await self._once.send(
            signature, sent, lambda: self._chain.node.call("sendTransaction", sent, timeout_ms), self._clock.monotonic()
        )

    async def _preflight(self, raw: bytes, commitment: str) -> NodeAnswer | None:
        """None where it would succeed; else the answer, in a node's own form of a failed preflight."""
        answer = await self._chain.simulate(raw, commitment, _SIMULATE_MS)
        if answer.kind is not AnswerKind.RESULT:
            return answer
        found: Any = value_of(answer)
        try:
            simulated = found["value"]
            error = simulated["err"]
        except (TypeError, KeyError):
            return replies.GARBAGE
        if error is None:
            return None
        return replies.own_error(Err.SIMULATION_FAILED, _said_of(error, simulated.get("logs")), simulated)


def _said_of(error: Any, logs: Any) -> str:
    """Return the error in the words of a node's preflight, as far as its simulation reports them; else as its JSON."""
    match error:
        case str():
            return error
        case {"InstructionError": [int(index), {"Custom": int(code)}]}:
            return f"Error processing Instruction {index}: custom program error: {code:#x}"
        case {"InstructionError": [int(index), _]} if logs and isinstance(logs[-1], str):
            found = _FAILED_PROGRAM.fullmatch(logs[-1])
            if found is not None:
                return f"Error processing Instruction {index}: {found[1]}"
    return orjson.dumps(error).decode()
