"""Parameters of what customers ask the block engine: bundles, their states, and a transaction through the engine.

Implements: interface, "Bundle relay" (at most 5 transactions; signatures are verified before billing).
Pure. Whether a bundle pays a tip is checked in sends/, because the engine tells its tip accounts.
"""

import base64
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from actors.methods.questions import BundleQuestion, BundleStatusQuestion, RelayedSendQuestion, encoded
from actors.methods.signed_transactions import decode_signed
from actors.methods.transactions import TransactionRefused
from actors.methods.values import InvalidError, at, at_most, fields, items, one_of, shown

TRANSACTIONS_MAX = 5  # Of a bundle, and bundles of a question: the engine's limits.
_BUNDLE_ID_CHARACTERS_MAX = 128  # The engine's ids have 64; it decides on their form.
_ENCODING = {"encoding": one_of("base58", "base64")}


def send_bundle(arguments: list[Any], raw: bytes) -> bytes:
    """Each transaction complete, as for a send. Without an encoding, base64 and base58 are both taken."""
    at_most(arguments, 2)
    texts, encoding = at(arguments, 0, "transactions"), _encoding(arguments)
    if type(texts) is not list or not 1 <= len(texts) <= TRANSACTIONS_MAX:
        raise InvalidError(f"parameter 1 (transactions): wanted a list of 1 to {TRANSACTIONS_MAX} transactions")
    signed = [_signed(text, f"transaction {number}", encoding) for number, text in enumerate(texts, 1)]
    return encoded(BundleQuestion(tuple(signed)))


def _send_transaction(arguments: list[Any], bundle_only: bool) -> bytes:
    at_most(arguments, 2)
    text = _signed(at(arguments, 0, "transaction"), "transaction", _encoding(arguments))
    return encoded(RelayedSendQuestion(text, bundle_only))


def _statuses(arguments: list[Any], bundle_only: bool) -> bytes:
    at_most(arguments, 1)
    given = at(arguments, 0, "bundle ids")
    items(given, "bundle ids", _bundle_id, TRANSACTIONS_MAX, length_min=1)
    return encoded(BundleStatusQuestion(tuple(given)))


def _nothing(arguments: list[Any], bundle_only: bool) -> bytes:
    if arguments not in ([], [None]):  # jito-py-rpc sends [null].
        raise InvalidError("this method takes no parameters")
    return b"[]"


def _encoding(arguments: list[Any]) -> str | None:
    config = arguments[1] if len(arguments) > 1 else None
    given: str | None = None if config is None else fields(config, "parameter 2", _ENCODING).get("encoding")
    return given


def _signed(text: Any, name: str, encoding: str | None) -> str:
    if type(text) is not str:
        raise InvalidError(f"{name}: wanted a string")
    try:
        return base64.b64encode(decode_signed(text, encoding).raw).decode()
    except TransactionRefused as fault:
        raise InvalidError(f"{name}: {fault}") from None


def _bundle_id(value: Any, name: str) -> None:
    if type(value) is not str or not 1 <= len(value) <= _BUNDLE_ID_CHARACTERS_MAX or not value.isascii():
        raise InvalidError(f"{name}: {shown(value)} is no bundle id")


# By the name that a client calls. The second argument: whether a transaction must land as a bundle.
RULES: MappingProxyType[str, Callable[[list[Any], bool], bytes]] = MappingProxyType(
    {
        "sendBundle": lambda arguments, _: send_bundle(arguments, b""),
        "sendTransaction": _send_transaction,
        "getBundleStatuses": _statuses,
        "getInflightBundleStatuses": _statuses,
        "getTipAccounts": _nothing,
    }
)
