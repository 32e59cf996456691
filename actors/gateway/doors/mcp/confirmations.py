"""Asks a person to confirm a call before it is run: the question, the state that travels with it, and the decision.

Implements: Model Context Protocol 2026-07-28, basic/patterns/mrtr and client/elicitation (form mode); decisions, "MCP
confirmations". Pure: no clock, no I/O, no randomness; times arrive as Unix seconds.

Nothing is kept between the question and its answer. The client brings the state back, which this service has signed: it
is good for one account, one call with its parameters and its Idempotency-Key, and SECONDS. Its nonce becomes the
Idempotency-Key of a call that has none, so that one confirmation runs a call once (confirming.py).
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall
from actors.idempotency.core import fingerprint_of
from actors.methods.bundles import BundleQuestion
from actors.methods.prices import MethodClass
from actors.methods.sends import RaceQuestion, SmartSendQuestion
from actors.methods.signed_transactions import decode_signed
from actors.methods.trades import LAMPORTS_PER_SOL, SellQuestion, SnipeQuestion
from actors.methods.transactions import whole_transaction
from actors.units import base58_text

CLASSES: Final = frozenset(
    (MethodClass.SEND, MethodClass.SEND_AND_CONFIRM, MethodClass.SEND_BUNDLE, MethodClass.TRADE_BUILD)
)
SECONDS: Final = 300  # A blockhash is valid for about 60 to 90 s; a trade is built after its confirmation.
NONCE_BYTES: Final = 12
CONFIRM: Final = "confirm"  # Name of the request, and of its one field.
_PURPOSE = b"ledger-gateway: confirmations of calls over MCP"
_EXPIRY_BYTES = 8
_STATE_BYTES = _EXPIRY_BYTES + NONCE_BYTES + 32
_STATE_CHARACTERS_MAX = 128
_PROGRAMS_SHOWN_MAX = 8

DECLINED: Final = Refusal(Err.CONFIRMATION_DECLINED, "nothing was sent or built, and nothing is charged")
FOREIGN_STATE: Final = Refusal(
    Err.INVALID_PARAMS,
    "requestState belongs to another call, account or key; make the call again without it and without inputResponses",
)
TOO_LATE: Final = Refusal(
    Err.CONFIRMATION_DECLINED,
    f"it was confirmed more than {SECONDS} seconds after the question",
    "make the call again, without requestState and inputResponses",
)


class Unasked(msgspec.Struct, frozen=True):
    """A person must be asked first."""


class Confirmed(msgspec.Struct, frozen=True):
    """nonce: of the confirmed state."""

    nonce: bytes


def can_ask(capabilities: Mapping[str, Any]) -> bool:
    """Return whether a client can show its user a form; an empty capability means that it can."""
    elicitation = capabilities.get("elicitation")
    return type(elicitation) is dict and (not elicitation or "form" in elicitation)


class States:
    """Signs and verifies states; every replica knows the key."""

    def __init__(self, cluster_secret: bytes) -> None:
        self._key = hmac.new(cluster_secret, _PURPOSE, hashlib.sha256).digest()

    def make(self, subject: bytes, now: int, nonce: bytes) -> str:
        """subject: of subject_of. nonce: NONCE_BYTES random bytes."""
        assert len(nonce) == NONCE_BYTES, len(nonce)
        claim = (now + SECONDS).to_bytes(_EXPIRY_BYTES, "big") + nonce
        return base64.urlsafe_b64encode(claim + self._tag(claim, subject)).decode().rstrip("=")

    def decide(
        self, state: str | None, responses: Mapping[str, Any], subject: bytes, now: int
    ) -> Unasked | Confirmed | Refusal:
        """Decide whether a call may run. state: from the client's retry; None: nobody was asked yet."""
        if state is None:
            return Unasked()
        found = _decoded(state)
        if found is None or not hmac.compare_digest(found[-32:], self._tag(found[:-32], subject)):
            return FOREIGN_STATE
        if now > int.from_bytes(found[:_EXPIRY_BYTES], "big"):
            return TOO_LATE
        answer = responses.get(CONFIRM)
        action = answer.get("action") if type(answer) is dict else None
        if action in ("decline", "cancel"):
            return DECLINED
        content = answer.get("content") if type(answer) is dict else None
        confirmed = content.get(CONFIRM) if type(content) is dict else None
        if action != "accept" or type(confirmed) is not bool:
            return Unasked()  # The protocol says that missing input is requested again.
        return Confirmed(found[_EXPIRY_BYTES:-32]) if confirmed else DECLINED

    def _tag(self, claim: bytes, subject: bytes) -> bytes:
        return hmac.new(self._key, claim + subject, hashlib.sha256).digest()


def _decoded(state: str) -> bytes | None:
    if len(state) > _STATE_CHARACTERS_MAX or not state.isascii():
        return None
    try:
        found = base64.b64decode(state + "=" * (-len(state) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if len(found) == _STATE_BYTES else None


def subject_of(account: bytes, call: AdmittedCall, key: bytes | None) -> bytes:
    """Return the subject of a confirmation. account: who pays. key: the Idempotency-Key of the request."""
    parts = [account, fingerprint_of(call.plan.method, call.params), b"" if key is None else b"=" + key]
    if call.plan.price_list:  # The price that its user was told; of the public ones there is one for each method.
        parts.append(f"{call.plan.price_list} {call.plan.ceiling} {call.plan.base}".encode())
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


def input_requests(call: AdmittedCall, price: str) -> dict[str, Any]:
    """Make the question. It names keys, amounts and programs, and never a text that a stranger wrote on the chain."""
    field = {"type": "boolean", "title": "Yes, do it", "description": "Without it, nothing is sent, built or charged."}
    form = {"type": "object", "properties": {CONFIRM: field}, "required": [CONFIRM]}
    params = {"mode": "form", "message": f"{_what(call)} Costs {price}.", "requestedSchema": form}
    return {CONFIRM: {"method": "elicitation/create", "params": params}}


def _what(call: AdmittedCall) -> str:
    """Describe the call. Its parameters have passed the method's rule."""
    match call.plan.method:
        case "sendTransaction":
            text, *rest = orjson.loads(call.params)
            encoding = rest[0].get("encoding") if rest and rest[0] else None
            return _send(decode_signed(text, encoding or "base58").raw)
        case "sendSmartTransaction":
            return _send(base64.b64decode(msgspec.json.decode(call.params, type=SmartSendQuestion).transaction))
        case "sendAndConfirm":
            return _send(base64.b64decode(msgspec.json.decode(call.params, type=RaceQuestion).transaction))
        case "sendBundle":
            sent = msgspec.json.decode(call.params, type=BundleQuestion).transactions
            every = " ".join(f"{number}. {_send(base64.b64decode(one))}" for number, one in enumerate(sent, 1))
            return f"{len(sent)} transactions that land together, or not at all: {every}"
        case "executeSnipe":
            buy = msgspec.json.decode(call.params, type=SnipeQuestion)
            sol = f"{buy.budget_lamports // LAMPORTS_PER_SOL}.{buy.budget_lamports % LAMPORTS_PER_SOL:09}"
            return f"Build a transaction that buys token {buy.mint} for {sol} SOL{_limits(buy)}"
        case "executeSell":
            sale = msgspec.json.decode(call.params, type=SellQuestion)
            return f"Build a transaction that sells {sale.tokens} base units of token {sale.mint}{_limits(sale)}"
        case _:
            return f"Call {call.plan.method}."


def _limits(trade: SnipeQuestion | SellQuestion) -> str:
    return f", at a price that may be up to {trade.slippage_bps / 100:g} % worse."


def _send(raw: bytes) -> str:
    transaction = whole_transaction(raw)
    message = transaction.message
    keys, count = message.account_keys, len(message.instructions)
    indexes = dict.fromkeys(one.program_id_index for one in message.instructions)
    programs = [str(keys[index]) if index < len(keys) else "a program of a lookup table" for index in indexes]
    more = " and others" if len(programs) > _PROGRAMS_SHOWN_MAX else ""
    named = ", ".join(programs[:_PROGRAMS_SHOWN_MAX]) or "none"
    signature = base58_text(bytes(transaction.signatures[0]))
    return f"Send transaction {signature} of wallet {keys[0]}: {count} instructions, programs: {named}{more}."
