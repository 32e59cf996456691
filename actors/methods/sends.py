"""Methods that send a transaction, simulate one, or tell what became of one.

Implements: interface, sendSmartTransaction and sendAndConfirm (verified before billing); decisions,
`getSendStatus`; limits of Agave's RPC. Pure.
"""

import base64
from typing import Any

from actors.methods import forms, results
from actors.methods.entries import Question, encoded, node, own
from actors.methods.forms import Parameter, an_object, checks_of, config, documented, needed
from actors.methods.prices import MethodClass
from actors.methods.signed_transactions import decode_signed, signed_transaction
from actors.methods.transactions import TransactionRefused, account_count, decode_transaction
from actors.methods.values import (
    Check,
    InvalidError,
    at,
    at_most,
    commitment,
    fields,
    items,
    one_of,
    pubkey,
    shown,
    signature,
)
from actors.methods.values import an_object as object_of

_PREFLIGHT = "confirmed"  # The node knows a newly fetched blockhash at this commitment, but not yet at finalized.
_SEND = {
    "skipPreflight": forms.BOOLEAN,
    "preflightCommitment": forms.COMMITMENT,
    "maxRetries": forms.UNSIGNED,
    "minContextSlot": forms.UNSIGNED,
}
_SEND_CHECKS = checks_of(_SEND)
_SIMULATE = {
    "sigVerify": forms.BOOLEAN,
    "replaceRecentBlockhash": forms.BOOLEAN,
    "innerInstructions": forms.BOOLEAN,
    **forms.VERSIONED,
}
_SIMULATE_CHECKS = {
    **checks_of(forms.CONTEXT | _SIMULATE),
    "accounts": object_of({"encoding": one_of("base64", "base64+zstd", "jsonParsed")}, required=("addresses",)),
}
_SMART = {"simulate": forms.BOOLEAN, "priority_fee_urgency": forms.URGENCY}
_SMART_CHECKS = checks_of(_SMART)
_CONFIRM = {"encoding": forms.TRANSACTION_ENCODING, "skipPreflight": forms.BOOLEAN}
_CONFIRM_CHECKS = {**checks_of(_CONFIRM), "preflightCommitment": commitment}


class RaceQuestion(Question, frozen=True):
    """sendAndConfirm. transaction: base64 of a fully signed one. preflight: commitment to simulate at; None: do not."""

    transaction: str
    preflight: str | None


class SmartSendQuestion(Question, frozen=True):
    """sendSmartTransaction, with a transaction as above. simulate: whether to do that first."""

    transaction: str
    simulate: bool


class SendStatusQuestion(Question, frozen=True):
    """getSendStatus. signature: base58."""

    signature: str


def _given_transaction(arguments: list[Any], checks: dict[str, Check]) -> tuple[bytes, dict[str, Any]]:
    """Decode a transaction to its last byte. A simulation may do without signatures. Gives the configuration too."""
    at_most(arguments, 2)
    value = at(arguments, 0, "transaction")
    second = arguments[1] if len(arguments) > 1 else None
    config = {} if second is None else fields(second, "parameter 2 (configuration)", checks)
    encoding = config.get("encoding")
    if type(value) is not str:
        raise InvalidError("transaction: wanted a string")
    if encoding is not None and type(encoding) is not str:
        raise InvalidError("encoding: wanted base58 or base64")
    try:
        return decode_transaction(value, encoding or "base58"), config
    except TransactionRefused as fault:
        raise InvalidError(f"transaction: {fault}") from None


def _send(arguments: list[Any], raw: bytes) -> bytes:
    """With skipPreflight the node would take a transaction that is not fully signed, and it could never land."""
    transaction, _ = _given_transaction(arguments, _SEND_CHECKS)
    try:
        signed_transaction(transaction)
    except TransactionRefused as fault:
        raise InvalidError(f"transaction: {fault}") from None
    return raw


def _simulate(arguments: list[Any], raw: bytes) -> bytes:
    transaction, config = _given_transaction(arguments, _SIMULATE_CHECKS)
    if config.get("sigVerify") and config.get("replaceRecentBlockhash"):
        raise InvalidError("sigVerify cannot be used with replaceRecentBlockhash")
    accounts = config.get("accounts")
    if accounts is not None:
        items(accounts["addresses"], "addresses", pubkey, account_count(transaction))
    return raw


def _smart_send(arguments: list[Any], raw: bytes) -> bytes:
    transaction, config = _signed(arguments, _SMART_CHECKS)
    return encoded(SmartSendQuestion(transaction, bool(config.get("simulate"))))


def _send_and_confirm(arguments: list[Any], raw: bytes) -> bytes:
    transaction, config = _signed(arguments, _CONFIRM_CHECKS)
    preflight = None
    if config.get("skipPreflight") is False:
        preflight = config.get("preflightCommitment") or _PREFLIGHT
    return encoded(RaceQuestion(transaction, preflight))


def _send_status(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 1)
    given = at(arguments, 0, "signature")
    signature(given, "parameter 1 (signature)")
    return encoded(SendStatusQuestion(given))


def _signed(arguments: list[Any], checks: dict[str, Check]) -> tuple[str, dict[str, Any]]:
    """Base64 of the transaction, and the configuration. Without an encoding either is taken."""
    at_most(arguments, 2)
    text = at(arguments, 0, "transaction")
    second = arguments[1] if len(arguments) > 1 else None
    config = {} if second is None else fields(second, "parameter 2 (configuration)", checks)
    for name in config:
        if name not in checks:  # A misspelt `simulate` would send a transaction that its caller wanted to simulate.
            raise InvalidError(f"parameter 2 (configuration): {shown(name)} is none of {', '.join(checks)}")
    if type(text) is not str:
        raise InvalidError("transaction: wanted a string")
    try:
        found = decode_signed(text, config.get("encoding") if "encoding" in checks else None)
    except TransactionRefused as fault:
        raise InvalidError(f"transaction: {fault}") from None
    return base64.b64encode(found.raw).decode(), config


METHODS = (
    node(
        "sendTransaction",
        MethodClass.SEND,
        "Sends a signed transaction to the chain, and returns its signature at once.",
        "Use it when you will look for the outcome yourself, by getSignatureStatuses; else use sendAndConfirm.",
        results.SIGNATURE,
        forms.SIGNED,
        config(encoding=forms.TRANSACTION_ENCODING, **_SEND),
        example=None,
        sketch='["<signed transaction in base64>", {"encoding": "base64"}]',
        rule=_send,
    ),
    own(
        "sendSmartTransaction",
        MethodClass.SEND,
        "Sends a signed transaction, on request after a simulation, and returns its signature.",
        "Use it to have a transaction tried before it is sent: with simulate true one that would fail is not sent.",
        results.SIGNATURE,
        forms.SIGNED,
        Parameter("options", an_object("options", (), **_SMART)),
        example=None,
        sketch='["<signed transaction in base64>", {"simulate": true}]',
        rule=_smart_send,
    ),
    own(
        "sendAndConfirm",
        MethodClass.SEND_AND_CONFIRM,
        "Sends a signed transaction over every path at once, and returns when its outcome is known.",
        "Use it to land a transaction and know its outcome; if status is unknown, ask getSendStatus; sign no other.",
        results.OUTCOME,
        forms.SIGNED,
        Parameter("options", an_object("options", (), **_CONFIRM)),
        example=None,
        sketch='["<signed transaction in base64>"]',
        rule=_send_and_confirm,
        for_caller=True,
    ),
    own(
        "getSendStatus",
        MethodClass.SEND_STATUS,
        "Returns the outcome of an earlier sendAndConfirm of the same account.",
        "Use it when a sendAndConfirm did not answer, or answered with status unknown.",
        results.SEND_STATUS,
        needed("signature", forms.SIGNATURE),
        example=(forms.EXAMPLE_SIGNATURE,),
        rule=_send_status,
        for_caller=True,
    ),
    node(
        "simulateTransaction",
        MethodClass.READ_MEDIUM,
        "Executes a transaction without sending it.",
        "Use it to see whether a transaction would succeed, and why not; replaceRecentBlockhash spares a fresh one.",
        results.SIMULATION,
        needed("transaction", documented(type="string", description="transaction in base64 or base58")),
        config(**forms.CONTEXT, encoding=forms.TRANSACTION_ENCODING, **_SIMULATE),
        example=None,
        sketch='["<transaction in base64>", {"encoding": "base64", "replaceRecentBlockhash": true}]',
        rule=_simulate,
    ),
)
