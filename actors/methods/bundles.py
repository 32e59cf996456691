"""Bundles: what customers ask the block engine, and the simulation of a bundle by the node.

Implements: interface, "Bundle relay" (at most 5 transactions; signatures are verified before billing) and JSON-RPC
gateway rule 6; decisions, "Parameters of simulateBundle".
Pure. Whether a bundle pays a tip is checked in sends/, because the engine tells its tip accounts.
"""

import base64
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import orjson

from actors.methods import forms, results
from actors.methods.entries import Question, as_first, encoded, node, own
from actors.methods.forms import Parameter, an_object, documented, list_of, needed
from actors.methods.prices import Availability, MethodClass
from actors.methods.signed_transactions import decode_signed
from actors.methods.transactions import BASE64_CHARACTERS_MAX, TransactionRefused, whole_transaction
from actors.methods.values import InvalidError, at, at_most, boolean, decoded_base64, fields, items, one_of, shown

TRANSACTIONS_MAX = 5  # Transactions of a bundle, and bundles of a request: the engine's limits.
SIMULATED_MAX = 20  # Transactions of a simulated bundle; the node's limit, like all limits of such bundles.
_BUNDLE_ID_CHARACTERS_MAX = 128  # The engine's ids have 64; the engine judges their form.
_ENCODING = {"encoding": forms.TRANSACTION_ENCODING.check}


class BundleQuestion(Question, frozen=True):
    """sendBundle. transactions: base64, each fully signed, in the order in which they execute."""

    transactions: tuple[str, ...]


class RelayedSendQuestion(Question, frozen=True):
    """A transaction, in base64, sent through the block engine. bundle_only: it may land only as a bundle."""

    transaction: str
    bundle_only: bool


class BundleStatusQuestion(Question, frozen=True):
    """The states of these bundles."""

    bundle_ids: tuple[str, ...]


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


def _bundle(arguments: list[Any], raw: bytes) -> bytes:
    """Rule 6 and decisions, "Parameters of simulateBundle": published as `transactions`, known to the node as
    `encodedTransactions`."""
    at_most(arguments, 2)
    given = at(arguments, 0, "bundle")
    if type(given) is not dict:
        raise InvalidError('parameter 1 must be {"transactions": [...]}; a bare array is not taken')
    named = [name for name in ("transactions", "encodedTransactions") if given.get(name) is not None]
    if len(named) != 1:
        raise InvalidError('parameter 1 must be {"transactions": [...]}')
    texts = items(given[named[0]], named[0], _bundled, SIMULATED_MAX, 1)
    if len(set(texts)) != len(texts):
        raise InvalidError(f"{named[0]}: a transaction occurs twice")
    config = arguments[1] if len(arguments) > 1 else None
    if config is not None:
        _bundle_config(config, len(texts))
    others = {name: value for name, value in given.items() if name not in ("transactions", "encodedTransactions")}
    sent = [{"encodedTransactions": texts, **others}, *([config] if config is not None else [])]
    return orjson.dumps(sent)


def _bundled(value: Any, name: str) -> None:
    try:
        whole_transaction(decoded_base64(value, name, BASE64_CHARACTERS_MAX))
    except TransactionRefused as fault:
        raise InvalidError(f"{name}: {fault}") from None


def _bundle_config(given: Any, transactions: int) -> None:
    checks = {
        "transactionEncoding": one_of("base64"),
        "skipSigVerify": boolean,
        "replaceRecentBlockhash": boolean,
    }
    both = ("preExecutionAccountsConfigs", "postExecutionAccountsConfigs")
    config = fields(given, "parameter 2 (configuration)", checks, required=both)
    for name in both:
        if type(config[name]) is not list or len(config[name]) != transactions:
            raise InvalidError(f"{name}: wanted an array with one entry for each of the {transactions} transactions")
    if config.get("replaceRecentBlockhash") and not config.get("skipSigVerify"):
        raise InvalidError("replaceRecentBlockhash needs skipSigVerify")


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

METHODS = (
    node(
        "simulateBundle",
        MethodClass.READ_HEAVY,
        "Executes up to 20 transactions in order without sending them.",
        "Use it before sendBundle.",
        results.BUNDLE_SIMULATION,
        needed("bundle", an_object("the bundle", ("transactions",), transactions=list_of(forms.STRING, SIMULATED_MAX))),
        Parameter("configuration", an_object("options of the node")),
        example=None,
        sketch='[{"transactions": ["<signed transaction in base64>", "<another>"]}]',
        rule=_bundle,
        named_rule=as_first(_bundle),
    ),
    own(
        "sendBundle",
        MethodClass.SEND_BUNDLE,
        "Sends up to 5 signed transactions, one of which tips, to the block engine as one bundle.",
        "Use it when transactions must all land, in order, in one block, or not at all.",
        results.BUNDLE_ID,
        needed("transactions", list_of(documented(type="string", description="signed transaction"), TRANSACTIONS_MAX)),
        Parameter("options", an_object("options", encoding=forms.TRANSACTION_ENCODING)),
        example=None,
        sketch='[["<signed transaction in base64>", "<another, which pays the tip>"], {"encoding": "base64"}]',
        rule=send_bundle,
        availability=Availability.RELAY,
    ),
)
