"""Methods about fees: of a message, of recent slots, and the suggestions that the product makes from them.

Implements: interface, "suggestPriorityFee"; the request of getPriorityFeeEstimate that wallets already send. Pure.
"""

from typing import Any

from solders.message import from_bytes_versioned

from actors.methods import forms, results
from actors.methods.entries import Question, as_first, encoded, node, own
from actors.methods.forms import Form, Parameter, an_object, choice, config, documented, list_of, needed
from actors.methods.prices import MethodClass
from actors.methods.transactions import (
    BASE64_CHARACTERS_MAX,
    TransactionRefused,
    decode_transaction,
    writable_keys,
    written_by_tables,
)
from actors.methods.values import (
    InvalidError,
    at_most,
    boolean,
    decoded_base64,
    fields,
    items,
    one_of,
    pubkey,
    shown,
    up_to,
)

FEE_ACCOUNTS_MAX = 128  # Limit of a node for one call.
ESTIMATE_ACCOUNTS_MAX = 500  # Requested from the node in several calls.
WINDOW_SLOTS = 150
_LOOKBACK_MAX = 300  # Most that callers of the estimate send; a node keeps half of it.
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
_URGENCY_CHECKS = {"urgency": forms.URGENCY.check}
_ACCOUNTS = list_of(forms.PUBKEY, FEE_ACCOUNTS_MAX)
_EXAMPLE_MESSAGE = (
    "AQABAgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAEBAQAA"
)


_Accounts = tuple[tuple[str, ...], tuple[tuple[str, bytes], ...]]  # As in EstimateQuestion: accounts and tables.


class FeeQuestion(Question, frozen=True):
    """suggestPriorityFee. accounts: empty for the global window."""

    urgency: str
    accounts: tuple[str, ...]


class EstimateQuestion(Question, frozen=True):
    """getPriorityFeeEstimate. percent: 0 to 100; empty_as_zero: slots without a paid fee count as zero.

    tables: lookup tables of the transaction, and the places in each whose accounts it writes to. recommended: the
    estimate has a floor.
    """

    accounts: tuple[str, ...]
    percent: int
    with_levels: bool
    empty_as_zero: bool
    lookback_slots: int
    recommended: bool = False
    tables: tuple[tuple[str, bytes], ...] = ()


def _message(value: Any, name: str) -> None:
    try:
        from_bytes_versioned(decoded_base64(value, name, BASE64_CHARACTERS_MAX))
    except ValueError:
        raise InvalidError(f"{name}: the bytes are not a transaction's message") from None


def _suggest(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 1)
    given = arguments[0] if arguments else None
    if type(given) is str:
        given = {"urgency": given}
    elif given is None:
        given = {}
    elif type(given) is not dict:
        raise InvalidError("parameter 1 must be an urgency or an object")
    fields(given, "parameter 1", _URGENCY_CHECKS)
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
    accounts, tables = _estimated_accounts(given, options)
    question = EstimateQuestion(
        accounts=accounts,
        percent=_PRIORITIES[options.get("priorityLevel") or "Default"],
        with_levels=bool(options.get("includeAllPriorityFeeLevels")),
        empty_as_zero=bool(options.get("evaluateEmptySlotAsZero")),
        lookback_slots=min(options.get("lookbackSlots") or WINDOW_SLOTS, WINDOW_SLOTS),
        recommended=recommended,
        tables=tables,
    )
    return encoded(question)


def _estimated_accounts(given: dict[str, Any], options: dict[str, Any]) -> _Accounts:
    keys, text = given.get("accountKeys"), given.get("transaction")
    if keys is not None and text is not None:
        raise InvalidError("give accountKeys or transaction, not both")
    if keys is not None:
        return tuple(dict.fromkeys(items(keys, "accountKeys", pubkey, ESTIMATE_ACCOUNTS_MAX))), ()
    if text is None:
        return (), ()
    if type(text) is not str:
        raise InvalidError("transaction: wanted a string")
    try:
        raw = decode_transaction(text, options.get("transactionEncoding") or "base58")
        return writable_keys(raw), written_by_tables(raw)
    except TransactionRefused as fault:
        raise InvalidError(f"transaction: {fault}") from None


def _known(given: dict[str, Any], names: tuple[str, ...], name: str) -> None:
    """Refuse unknown options: ignoring one would change the answer that the caller pays for."""
    for key in given:
        if key not in names:
            raise InvalidError(f"{name}: {shown(key)} is none of {', '.join(names)}")


METHODS = (
    node(
        "getFeeForMessage",
        MethodClass.READ_CHEAP,
        "Returns the fee of a message in lamports.",
        "Use it before you sign: it is what the chain will charge, without the price of this service.",
        results.MESSAGE_FEE,
        needed("message", Form(_message, {"type": "string", "description": "message in base64"})),
        config(**forms.CONTEXT),
        example=(_EXAMPLE_MESSAGE,),
    ),
    node(
        "getRecentPrioritizationFees",
        MethodClass.READ_CHEAP,
        "Returns the priority fees of recent slots.",
        "Use it for the raw figures; suggestPriorityFee makes one figure of them.",
        results.RECENT_FEES,
        Parameter("pubkeys", _ACCOUNTS),
        example=([],),
    ),
    own(
        "suggestPriorityFee",
        MethodClass.READ_MEDIUM,
        "Suggests a priority fee in micro-lamports for one compute unit.",
        "Use it before you build a transaction, with the accounts that it writes to.",
        results.SUGGESTED_FEE,
        Parameter(
            "request",
            documented(
                description="an urgency (low, medium, high, critical), or an object with urgency and accounts",
                anyOf=[
                    dict(forms.URGENCY.schema),
                    dict(an_object("request", urgency=forms.URGENCY, accounts=_ACCOUNTS).schema),
                ],
            ),
        ),
        example=({"urgency": "high"},),
        rule=_suggest,
        named_rule=as_first(_suggest),
    ),
    own(
        "getPriorityFeeEstimate",
        MethodClass.READ_CHEAP,
        "Estimates a priority fee for accounts, or for a transaction.",
        "Use it as suggestPriorityFee, where a program expects this form.",
        results.FEE_ESTIMATE,
        Parameter(
            "request",
            an_object(
                "accountKeys or transaction",
                transaction=forms.STRING,
                accountKeys=list_of(forms.PUBKEY, ESTIMATE_ACCOUNTS_MAX),
                options=an_object(
                    "options",
                    priorityLevel=choice(*_PRIORITIES),
                    includeAllPriorityFeeLevels=forms.BOOLEAN,
                    recommended=forms.BOOLEAN,
                    transactionEncoding=choice("base58", "base64"),
                ),
            ),
        ),
        example=({"accountKeys": [forms.EXAMPLE_KEY], "options": {"priorityLevel": "High"}},),
        rule=_estimate,
        named_rule=as_first(_estimate),
    ),
)
