"""Methods that read transactions: one, and those of an address.

Implements: interface, "getTransactionHistory"; decisions, "maxSupportedTransactionVersion"; limits of Agave's RPC,
which answers -32602 beyond them. Pure.
"""

from typing import Any

from actors.methods import forms, results
from actors.methods.entries import Question, encoded, node, own, with_version
from actors.methods.forms import Parameter, an_object, checks_of, config, list_of, needed, up_to
from actors.methods.prices import MethodClass
from actors.methods.values import at, at_most, fields, pubkey, signature

HISTORY_LIMIT, HISTORY_LIMIT_MAX = 10, 100
_STATUSES_MAX = 256
_SIGNATURES_LIMIT_MAX = 1_000
_TRANSACTION_CHECKS = checks_of(forms.TRANSACTIONS)
_HISTORY = {
    "limit": up_to(HISTORY_LIMIT_MAX, 1, default=HISTORY_LIMIT),
    "before": forms.SIGNATURE,
    "until": forms.SIGNATURE,
    "commitment": forms.FROM_CONFIRMED,
}
_HISTORY_CHECKS = checks_of(_HISTORY)


class HistoryQuestion(Question, frozen=True):
    """getTransactionHistory. before, until: signatures that bound the list, as for getSignaturesForAddress."""

    address: str
    limit: int
    commitment: str
    before: str | None = None
    until: str | None = None


def _transaction_by_signature(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 2)
    signature(at(arguments, 0, "signature"), "parameter 1")
    return with_version(arguments, raw, _TRANSACTION_CHECKS)


def _history(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 2)
    pubkey(at(arguments, 0, "address"), "parameter 1 (address)")
    config = arguments[1] if len(arguments) > 1 else None
    config = {} if config is None else fields(config, "parameter 2", _HISTORY_CHECKS)
    limit, level = config.get("limit") or HISTORY_LIMIT, config.get("commitment") or "confirmed"
    return encoded(HistoryQuestion(arguments[0], limit, level, config.get("before"), config.get("until")))


# Methods that need an index over the whole chain; a plain node keeps none.
INDEXED = ("getAssetsByOwner", "getTransactionHistory")
METHODS = (
    node(
        "getSignatureStatuses",
        MethodClass.READ_CHEAP,
        "Returns what became of up to 256 transactions.",
        "Use it to learn whether transactions landed; set searchTransactionHistory for those older than minutes.",
        results.STATUSES,
        needed("signatures", list_of(forms.SIGNATURE, _STATUSES_MAX)),
        config(searchTransactionHistory=forms.BOOLEAN),
        example=([forms.EXAMPLE_SIGNATURE],),
    ),
    node(
        "getSignaturesForAddress",
        MethodClass.READ_MEDIUM,
        "Lists the transactions of an address, newest first.",
        "Use it to list what an address took part in; getTransactionHistory explains each.",
        results.SIGNATURES,
        forms.KEY,
        config(**forms.LATER, limit=up_to(_SIGNATURES_LIMIT_MAX, 1), before=forms.SIGNATURE, until=forms.SIGNATURE),
        example=(forms.EXAMPLE_KEY, {"limit": 10}),
    ),
    node(
        "getTransaction",
        MethodClass.READ_MEDIUM,
        "Returns one confirmed transaction.",
        "Use it to read a transaction with its logs and its error; null: it is not there at this commitment.",
        results.TRANSACTION,
        needed("signature", forms.SIGNATURE),
        config(**forms.TRANSACTIONS),
        example=(forms.EXAMPLE_SIGNATURE,),
        rule=_transaction_by_signature,
    ),
    own(
        "getTransactionHistory",
        MethodClass.READ_HEAVY,
        "Lists the transactions of an address with transfers, programs and a sentence about each.",
        "Use it to explain to a person what a wallet did.",
        results.HISTORY,
        needed("address", forms.PUBKEY),
        Parameter("options", an_object("page of the history", (), **_HISTORY)),
        example=(forms.EXAMPLE_KEY, {"limit": 5}),
        rule=_history,
    ),
)
