"""Parameters of the methods that send: whole transactions, fully signed, in the form that sends/ reads.

Implements: interface, sendSmartTransaction and sendAndConfirm (verified before billing); decisions,
`getSendStatus`. Pure.
"""

import base64
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from actors.methods.questions import RaceQuestion, SendStatusQuestion, SmartSendQuestion, encoded
from actors.methods.signed_transactions import decode_signed
from actors.methods.transactions import TransactionRefused
from actors.methods.values import (
    InvalidError,
    at,
    at_most,
    boolean,
    commitment,
    fields,
    one_of,
    shown,
    signature,
)

_URGENCIES = ("low", "medium", "high", "critical")
_ENCODING = one_of("base58", "base64")
_PREFLIGHT = "confirmed"  # A blockhash that a client fetched a moment ago is known here, and not yet at finalized.


def _smart_send(arguments: list[Any], raw: bytes) -> bytes:
    checks = {"simulate": boolean, "priority_fee_urgency": one_of(*_URGENCIES)}
    transaction, config = _signed(arguments, checks)
    return encoded(SmartSendQuestion(transaction, bool(config.get("simulate"))))


def _send_and_confirm(arguments: list[Any], raw: bytes) -> bytes:
    checks = {"encoding": _ENCODING, "skipPreflight": boolean, "preflightCommitment": commitment}
    transaction, config = _signed(arguments, checks)
    preflight = None
    if config.get("skipPreflight") is False:
        preflight = config.get("preflightCommitment") or _PREFLIGHT
    return encoded(RaceQuestion(transaction, preflight))


def _send_status(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 1)
    given = at(arguments, 0, "signature")
    signature(given, "parameter 1 (signature)")
    return encoded(SendStatusQuestion(given))


def _signed(arguments: list[Any], checks: dict[str, Callable[[Any, str], None]]) -> tuple[str, dict[str, Any]]:
    """Base64 of the transaction, and the configuration. Without an encoding either is taken."""
    at_most(arguments, 2)
    text = at(arguments, 0, "transaction")
    second = arguments[1] if len(arguments) > 1 else None
    config = {} if second is None else fields(second, "parameter 2 (configuration)", checks)
    for name in config:
        if name not in checks:  # A misspelt `simulate` would send what its caller wanted to try.
            raise InvalidError(f"parameter 2 (configuration): {shown(name)} is none of {', '.join(checks)}")
    if type(text) is not str:
        raise InvalidError("transaction: wanted a string")
    try:
        found = decode_signed(text, config.get("encoding") if "encoding" in checks else None)
    except TransactionRefused as fault:
        raise InvalidError(f"transaction: {fault}") from None
    return base64.b64encode(found.raw).decode(), config


RULES: MappingProxyType[str, Callable[[list[Any], bytes], bytes]] = MappingProxyType(
    {"getSendStatus": _send_status, "sendAndConfirm": _send_and_confirm, "sendSmartTransaction": _smart_send}
)
