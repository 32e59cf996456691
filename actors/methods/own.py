"""Checks the parameters of methods that a plain node lacks, and puts them into the form that their handlers read.

Implements: interface, "getTransactionHistory", "suggestPriorityFee" and JSON-RPC gateway rules 5 and 6;
decisions, "Parameters of simulateBundle"; the request of getPriorityFeeEstimate that wallets already send.
Pure. simulateBundle goes to the node, under the node's name for its list; the others become a question
(actors/methods/questions.py) for a handler of our own.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import orjson

from actors.methods.questions import AssetsQuestion, EstimateQuestion, FeeQuestion, HistoryQuestion, encoded
from actors.methods.transactions import (
    BASE64_CHARACTERS_MAX,
    TransactionRefused,
    decode_transaction,
    whole_transaction,
    writable_keys,
)
from actors.methods.values import (
    InvalidError,
    at,
    at_most,
    boolean,
    commitment,
    commitment_from_confirmed,
    decoded_base64,
    fields,
    items,
    one_of,
    pubkey,
    shown,
    signature,
    up_to,
)

HISTORY_LIMIT, HISTORY_LIMIT_MAX = 10, 100
ASSETS_LIMIT_MAX = 1_000  # Ten look-ups of a hundred mints.
ASSETS_PAGE_MAX = 100_000
FEE_ACCOUNTS_MAX = 128
BUNDLE_TRANSACTIONS_MAX = 20  # The node's limit, like all limits of bundles below.
WINDOW_SLOTS = 150
_LOOKBACK_MAX = 300  # What callers of the estimate may send; a node remembers half of it.
_URGENCIES = ("low", "medium", "high", "critical")
_OWNER_KEYS = ("ownerAddress", "owner_address", "owner")
# Priority levels of the estimate, and their percentiles.
_PRIORITIES = {"Min": 0, "Low": 25, "Medium": 50, "High": 75, "VeryHigh": 95, "UnsafeMax": 100, "Default": 50}
_OPTIONS = {
    "priorityLevel": one_of(*_PRIORITIES),
    "includeAllPriorityFeeLevels": boolean,
    "lookbackSlots": up_to(_LOOKBACK_MAX, 1),
    "recommended": boolean,
    "evaluateEmptySlotAsZero": boolean,
    "transactionEncoding": one_of("base58", "base64"),
    "includeVote": boolean,
    "includeDetails": boolean,
}
_NOT_OFFERED = ("includeVote", "includeDetails")  # A node's slots hold neither votes nor single transactions.


def _suggest(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 1)
    given = arguments[0] if arguments else None
    if type(given) is str:
        given = {"urgency": given}
    elif given is None:
        given = {}
    elif type(given) is not dict:
        raise InvalidError("parameter 1 must be an urgency or an object")
    fields(given, "parameter 1", {"urgency": one_of(*_URGENCIES)})
    accounts = given.get("accounts")
    if accounts is not None:
        items(accounts, "accounts", pubkey, FEE_ACCOUNTS_MAX)
    return encoded(FeeQuestion(given.get("urgency") or "medium", tuple(accounts or ())))


def _estimate(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 1)
    given = arguments[0] if arguments else None
    given = {} if given is None else fields(given, "parameter 1", {})
    _known(given, ("transaction", "accountKeys", "options"), "parameter 1")
    options = given.get("options")
    options = {} if options is None else fields(options, "options", _OPTIONS)
    _known(options, tuple(_OPTIONS), "options")
    for name in _NOT_OFFERED:
        if options.get(name):
            raise InvalidError(f"{name}: not offered here, as the fees are a node's, by slot")
    recommended = bool(options.get("recommended"))
    if recommended and options.keys() & {"priorityLevel", "lookbackSlots", "evaluateEmptySlotAsZero"}:
        raise InvalidError("recommended cannot be used with priorityLevel, lookbackSlots or evaluateEmptySlotAsZero")
    question = EstimateQuestion(
        accounts=_estimated_accounts(given, options),
        percent=_PRIORITIES[options.get("priorityLevel") or "Default"],
        with_levels=bool(options.get("includeAllPriorityFeeLevels")),
        empty_as_zero=bool(options.get("evaluateEmptySlotAsZero")),
        lookback_slots=min(options.get("lookbackSlots") or WINDOW_SLOTS, WINDOW_SLOTS),
    )
    return encoded(question)


def _estimated_accounts(given: dict[str, Any], options: dict[str, Any]) -> tuple[str, ...]:
    keys, text = given.get("accountKeys"), given.get("transaction")
    if keys is not None and text is not None:
        raise InvalidError("give accountKeys or transaction, not both")
    if keys is not None:
        return tuple(items(keys, "accountKeys", pubkey, FEE_ACCOUNTS_MAX))
    if text is None:
        return ()
    if type(text) is not str:
        raise InvalidError("transaction: wanted a string")
    try:
        return writable_keys(decode_transaction(text, options.get("transactionEncoding") or "base58"))
    except TransactionRefused as fault:
        raise InvalidError(f"transaction: {fault}") from None


def _known(given: dict[str, Any], names: tuple[str, ...], name: str) -> None:
    """Refuse unknown options: ignoring one would change the answer that the caller pays for."""
    for key in given:
        if key not in names:
            raise InvalidError(f"{name}: {shown(key)} is none of {', '.join(names)}")


def _assets(arguments: list[Any], raw: bytes) -> bytes:
    """Rule 5: the owner as a bare string, or in an object under one of three names."""
    at_most(arguments, 1)
    given = at(arguments, 0, "owner")
    if type(given) is str:
        given = {"owner": given}
    elif type(given) is not dict:
        raise InvalidError("parameter 1 must be the owner or an object that names it")
    named = [key for key in _OWNER_KEYS if given.get(key) is not None]
    if len(named) != 1:
        raise InvalidError(f"parameter 1: wanted the owner under one of {', '.join(_OWNER_KEYS)}")
    pubkey(given[named[0]], named[0])
    checks = {"page": up_to(ASSETS_PAGE_MAX, 1), "limit": up_to(ASSETS_LIMIT_MAX, 1), "commitment": commitment}
    fields(given, "parameter 1", checks)
    page, limit = given.get("page") or 1, given.get("limit") or ASSETS_LIMIT_MAX
    return encoded(AssetsQuestion(given[named[0]], page, limit, given.get("commitment") or ""))


def _history(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 2)
    pubkey(at(arguments, 0, "address"), "parameter 1 (address)")
    config = arguments[1] if len(arguments) > 1 else None
    checks = {
        "limit": up_to(HISTORY_LIMIT_MAX, 1),
        "before": signature,
        "until": signature,
        "commitment": commitment_from_confirmed,
    }
    config = {} if config is None else fields(config, "parameter 2", checks)
    limit, level = config.get("limit") or HISTORY_LIMIT, config.get("commitment") or "confirmed"
    return encoded(HistoryQuestion(arguments[0], limit, level, config.get("before"), config.get("until")))


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
    texts = items(given[named[0]], named[0], _bundled, BUNDLE_TRANSACTIONS_MAX, 1)
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


RULES: MappingProxyType[str, Callable[[list[Any], bytes], bytes]] = MappingProxyType(
    {
        "getAssetsByOwner": _assets,
        "getPriorityFeeEstimate": _estimate,
        "getTransactionHistory": _history,
        "simulateBundle": _bundle,
        "suggestPriorityFee": _suggest,
    }
)
