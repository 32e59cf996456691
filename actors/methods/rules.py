"""Checks a method's parameters before anything is charged, and adds the ones that the interface adds.

Implements: interface, JSON-RPC gateway rules 4 and 7; decisions, "maxSupportedTransactionVersion"; the node's own
limits (a call that the node is bound to refuse should not cost its caller a credit).
Pure. A rule sees the parameters as values and as their exact bytes; the bytes go to the node unchanged unless the
interface adds something. Every callable method has a rule, even if it only limits the number of parameters. The node
judges faults that need the chain (a missing account, a purged block), and its error is billed as published.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import orjson
from solders.message import from_bytes_versioned

from actors.addresses import TOKEN_PROGRAMS
from actors.errors import Err, Refusal
from actors.methods import own as params_own
from actors.methods import relay as params_relay
from actors.methods import sends as params_sends
from actors.methods import trades as params_trades
from actors.methods.signed_transactions import signed_transaction
from actors.methods.transactions import BASE64_CHARACTERS_MAX, TransactionRefused, account_count, decode_transaction
from actors.methods.values import (
    Check,
    InvalidError,
    an_object,
    at,
    at_most,
    blockhash,
    boolean,
    commitment,
    commitment_from_confirmed,
    decoded_base64,
    fields,
    items,
    list_of,
    one_of,
    pubkey,
    signature,
    u64,
    up_to,
    whole_number,
)

Rule = Callable[[list[Any], bytes], bytes]

# Limits of Agave's RPC; the node answers -32602 beyond them.
_ACCOUNTS_MAX = 100
_STATUSES_MAX = 256
_LEADERS_MAX = 5_000
_SIGNATURES_LIMIT_MAX = 1_000
_BLOCK_RANGE_MAX = 500_000
_SAMPLES_MAX = 720
_FEE_ACCOUNTS_MAX = 128
_ACCOUNT_BYTES_MAX = 10 * 1024 * 1024  # An account is at most this long, so nobody needs the rent of a longer one.
_VERSION_KEY = "maxSupportedTransactionVersion"
_VERSION_MAX = 255

_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])

# --- configuration objects, by the names that Agave has for them

_CONTEXT = {"commitment": commitment, "minContextSlot": u64}
_LATER_CONTEXT = {"commitment": commitment_from_confirmed, "minContextSlot": u64}
_DATA_SLICE = an_object({"offset": u64, "length": u64}, required=("offset", "length"))
_ACCOUNT_ENCODING = one_of("base64", "base58", "base64+zstd", "jsonParsed", "binary")
_ACCOUNT_INFO = {**_CONTEXT, "encoding": _ACCOUNT_ENCODING, "dataSlice": _DATA_SLICE}
_TRANSACTION_ENCODING = one_of("json", "jsonParsed", "base64", "base58", "binary")
_VERSIONED = {_VERSION_KEY: up_to(_VERSION_MAX)}
_TRANSACTION_CONFIG = {**_LATER_CONTEXT, **_VERSIONED, "encoding": _TRANSACTION_ENCODING}
_BLOCK_CONFIG = {
    **_TRANSACTION_CONFIG,
    "transactionDetails": one_of("full", "accounts", "signatures", "none"),
    "rewards": boolean,
}
_SIGNATURES_CONFIG = {
    **_LATER_CONTEXT,
    "limit": up_to(_SIGNATURES_LIMIT_MAX, 1),
    "before": signature,
    "until": signature,
}
_VOTE_ACCOUNTS_CONFIG = {
    "commitment": commitment,
    "votePubkey": pubkey,
    "keepUnstakedDelinquents": boolean,
    "delinquentSlotDistance": u64,
}
_LEADERS_CONFIG = {"commitment": commitment, "identity": pubkey}
_SEND_CONFIG = {
    "skipPreflight": boolean,
    "preflightCommitment": commitment,
    "maxRetries": u64,
    "minContextSlot": u64,
}
_SIMULATED_ACCOUNTS = an_object({"encoding": one_of("base64", "base64+zstd", "jsonParsed")}, required=("addresses",))
_SIMULATE_CONFIG = {
    **_CONTEXT,
    **_VERSIONED,
    "sigVerify": boolean,
    "replaceRecentBlockhash": boolean,
    "innerInstructions": boolean,
    "accounts": _SIMULATED_ACCOUNTS,
}


def check(method: str, arguments: list[Any], raw: bytes) -> bytes | Refusal:
    """The parameter bytes to send, or INVALID_PARAMS with a sentence that names the parameter."""
    rule = RULES.get(method)
    if rule is None:
        return raw
    try:
        return rule(arguments, raw)
    except InvalidError as fault:
        return Refusal(Err.INVALID_PARAMS, str(fault))


# --- changing the bytes


def _appended(raw: bytes, addition: bytes) -> bytes:
    """Append an element to a JSON array that is not empty."""
    return raw.rstrip()[:-1] + b"," + addition + b"]"


def _replaced(raw: bytes, index: int, element: bytes) -> bytes:
    """Replace the element at this place, or append it; the other elements keep their bytes."""
    elements = [bytes(part) for part in _LIST_DECODER.decode(raw)]
    elements[index : index + 1] = [element]
    return b"[" + b",".join(elements) + b"]"


def _with_version(arguments: list[Any], raw: bytes, checks: Mapping[str, Check]) -> bytes:
    """Add maxSupportedTransactionVersion 0 where it is missing: without it the node serves legacy transactions only.

    Parameter 2 may be absent, null, a bare encoding (Agave's older form) or an object.
    """
    value = arguments[1] if len(arguments) > 1 else None
    if type(value) is str:
        value = {"encoding": value}
    elif value is None:
        value = {}
    elif type(value) is not dict:
        raise InvalidError("parameter 2 must be an object or the name of an encoding")
    fields(value, "parameter 2", checks)
    if value.get(_VERSION_KEY) is not None:
        return raw
    if len(arguments) == 1:
        return _appended(raw, b'{"%b":0}' % _VERSION_KEY.encode())
    return _replaced(raw, 1, orjson.dumps({**value, _VERSION_KEY: 0}))


# --- rules that only list the parameters


def _takes(*checks: tuple[str, Check], least: int = 0) -> Rule:
    """(name, check) of each parameter, in order; those after the first `least` may be left out or null."""
    named = [(f"parameter {index + 1} ({name})", check) for index, (name, check) in enumerate(checks)]

    def rule(arguments: list[Any], raw: bytes) -> bytes:
        at_most(arguments, len(named))
        if len(arguments) < least:
            at(arguments, len(arguments), checks[len(arguments)][0])
        for index, value in enumerate(arguments):
            if value is not None or index < least:
                name, check = named[index]
                check(value, name)
        return raw

    return rule


def _config(checks: Mapping[str, Check]) -> tuple[str, Check]:
    return "configuration", an_object(checks)


_TAKING_NOTHING = """
getClusterNodes getEpochSchedule getFirstAvailableBlock getGenesisHash getHealth getHighestSnapshotSlot getIdentity
getInflationRate getMaxRetransmitSlot getMaxShredInsertSlot getVersion minimumLedgerSlot
rpc.discover
"""
_TAKING_A_CONTEXT = """
getBlockHeight getEpochInfo getLatestBlockhash getSlot getSlotLeader getStakeMinimumDelegation getTransactionCount
"""
_SLOT = _takes(("slot", u64), least=1)
_KEY_IN_CONTEXT = _takes(("public key", pubkey), _config(_CONTEXT), least=1)


# --- rules for single methods


def _transaction_by_signature(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 2)
    signature(at(arguments, 0, "signature"), "parameter 1")
    return _with_version(arguments, raw, _TRANSACTION_CONFIG)


def _block(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 2)
    whole_number(at(arguments, 0, "slot"), "slot")
    return _with_version(arguments, raw, _BLOCK_CONFIG)


def _blocks(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 3)
    first = whole_number(at(arguments, 0, "start slot"), "start slot")
    # Parameter 2 is the last slot, or already the configuration; null and absent let the node choose the end.
    second = arguments[1] if len(arguments) > 1 else None
    if type(second) is dict:
        fields(second, "parameter 2", _LATER_CONTEXT)
    elif second is not None:
        last = whole_number(second, "end slot")
        if last - first > _BLOCK_RANGE_MAX:
            raise InvalidError(f"the range of slots is {last - first}, at most {_BLOCK_RANGE_MAX} is allowed")
    if len(arguments) > 2 and arguments[2] is not None:
        fields(arguments[2], "parameter 3", _LATER_CONTEXT)
    return raw


def _slot_or_leaders_config(value: Any, name: str) -> None:
    if type(value) is dict:
        fields(value, name, _LEADERS_CONFIG)
    else:
        whole_number(value, name)


def _slot_range(value: Any, name: str) -> None:
    bounds = fields(value, name, {"firstSlot": u64, "lastSlot": u64}, required=("firstSlot",))
    last = bounds.get("lastSlot")
    if last is not None and last < bounds["firstSlot"]:
        raise InvalidError(f"{name}: lastSlot is before firstSlot")


def _message(value: Any, name: str) -> None:
    try:
        from_bytes_versioned(decoded_base64(value, name, BASE64_CHARACTERS_MAX))
    except ValueError:
        raise InvalidError(f"{name}: the bytes are not a transaction's message") from None


def _token_accounts_by_owner(arguments: list[Any], raw: bytes) -> bytes:
    """Rule 4 of the interface: a configuration that is left out becomes {"encoding":"base64"}."""
    at_most(arguments, 3)
    pubkey(at(arguments, 0, "owner"), "parameter 1")
    wanted = at(arguments, 1, "mint or programId")
    if type(wanted) is not dict or ("mint" in wanted) == ("programId" in wanted):
        raise InvalidError('parameter 2 must be {"mint": ...} or {"programId": ...}')
    if "mint" in wanted:
        pubkey(wanted["mint"], "mint")
    else:
        pubkey(wanted["programId"], "programId")
        one_of(*TOKEN_PROGRAMS)(wanted["programId"], "programId")
    if len(arguments) == 2:
        return _appended(raw, b'{"encoding":"base64"}')
    if arguments[2] is None:
        return _replaced(raw, 2, b'{"encoding":"base64"}')
    fields(arguments[2], "parameter 3", _ACCOUNT_INFO)
    return raw


def _given_transaction(arguments: list[Any], checks: Mapping[str, Check]) -> tuple[bytes, dict[str, Any]]:
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
    transaction, _ = _given_transaction(arguments, _SEND_CONFIG)
    try:
        signed_transaction(transaction)
    except TransactionRefused as fault:
        raise InvalidError(f"transaction: {fault}") from None
    return raw


def _simulate(arguments: list[Any], raw: bytes) -> bytes:
    transaction, config = _given_transaction(arguments, _SIMULATE_CONFIG)
    if config.get("sigVerify") and config.get("replaceRecentBlockhash"):
        raise InvalidError("sigVerify cannot be used with replaceRecentBlockhash")
    accounts = config.get("accounts")
    if accounts is not None:
        items(accounts["addresses"], "addresses", pubkey, account_count(transaction))
    return raw


RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(_TAKING_NOTHING.split(), _takes()),
        **dict.fromkeys(_TAKING_A_CONTEXT.split(), _takes(_config(_CONTEXT))),
        "getAccountInfo": _takes(("public key", pubkey), _config(_ACCOUNT_INFO), least=1),
        "getBalance": _KEY_IN_CONTEXT,
        "getBlock": _block,
        "getBlockCommitment": _SLOT,
        "getBlockProduction": _takes(_config({"commitment": commitment, "identity": pubkey, "range": _slot_range})),
        "getBlocks": _blocks,
        "getBlocksWithLimit": _takes(
            ("start slot", u64),
            ("limit", up_to(_BLOCK_RANGE_MAX)),
            _config({**_LATER_CONTEXT, **_VERSIONED}),
            least=2,
        ),
        "getBlockTime": _SLOT,
        "getFeeForMessage": _takes(("message", _message), _config(_CONTEXT), least=1),
        "getInflationGovernor": _takes(_config({"commitment": commitment})),
        "getLeaderSchedule": _takes(("slot", _slot_or_leaders_config), _config(_LEADERS_CONFIG)),
        "getMinimumBalanceForRentExemption": _takes(
            ("data length", up_to(_ACCOUNT_BYTES_MAX)), _config({"commitment": commitment}), least=1
        ),
        "getMultipleAccounts": _takes(("public keys", list_of(pubkey, _ACCOUNTS_MAX)), _config(_ACCOUNT_INFO), least=1),
        "getRecentPerformanceSamples": _takes(("limit", up_to(_SAMPLES_MAX))),
        "getRecentPrioritizationFees": _takes(("public keys", list_of(pubkey, _FEE_ACCOUNTS_MAX))),
        "getSignaturesForAddress": _takes(("public key", pubkey), _config(_SIGNATURES_CONFIG), least=1),
        "getSignatureStatuses": _takes(
            ("signatures", list_of(signature, _STATUSES_MAX)), _config({"searchTransactionHistory": boolean}), least=1
        ),
        "getSlotLeaders": _takes(("start slot", u64), ("limit", up_to(_LEADERS_MAX)), least=2),
        "getTokenAccountBalance": _KEY_IN_CONTEXT,
        "getTokenAccountsByOwner": _token_accounts_by_owner,
        "getTokenSupply": _KEY_IN_CONTEXT,
        "getTransaction": _transaction_by_signature,
        "getVoteAccounts": _takes(_config(_VOTE_ACCOUNTS_CONFIG)),
        "isBlockhashValid": _takes(("blockhash", blockhash), _config(_CONTEXT), least=1),
        "sendTransaction": _send,
        "simulateTransaction": _simulate,
        **params_own.RULES,
        **params_sends.RULES,
        "sendBundle": params_relay.send_bundle,
        **params_trades.RULES,
    }
)
