"""What a method's parameters must look like, checked before anything is charged, and what is added to them.

Implements: interface specification, JSON-RPC gateway rules 4 and 7; decisions 3.3; the node's own limits
(a call that the node is bound to refuse should not cost its caller a credit).
Pure. A rule sees the parameters as values and their exact bytes; the bytes go to the node unchanged unless the
interface adds something. What these rules do not know of, the node judges, and its error is billed as published.
"""

import base64
import binascii
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import msgspec
import orjson
from solders.hash import Hash
from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.errors import Err, Refusal
from actors.upstream.transactions import BASE64_CHARACTERS_MAX, TransactionRefused, decode_transaction

Rule = Callable[[list[Any], bytes], "bytes | Refusal"]

# Limits of Agave's RPC; the node answers -32602 beyond them.
_ACCOUNTS_MAX = 100
_STATUSES_MAX = 256
_LEADERS_MAX = 5_000
_SIGNATURES_LIMIT_MAX = 1_000
_BLOCK_RANGE_MAX = 500_000
_SAMPLES_MAX = 720
_FEE_ACCOUNTS_MAX = 128
_U64_MAX = (1 << 64) - 1
_VERSION_KEY = "maxSupportedTransactionVersion"
_VERSION_MAX = 255
_TEXT_SHOWN_MAX = 48

_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


class _InvalidError(Exception):
    """Ends a rule from within; never leaves this module."""


def check(method: str, arguments: list[Any], raw: bytes) -> bytes | Refusal:
    """The parameter bytes to send, or INVALID_PARAMS with a sentence that names the parameter."""
    rule = RULES.get(method)
    if rule is None:
        return raw
    try:
        return rule(arguments, raw)
    except _InvalidError as fault:
        return Refusal(Err.INVALID_PARAMS, str(fault))


# --- single values


def _at(arguments: list[Any], index: int, name: str) -> Any:
    if len(arguments) <= index:
        raise _InvalidError(f"parameter {index + 1} ({name}) is missing")
    return arguments[index]


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else type(value).__name__
    printable = "".join(character if character.isprintable() else "?" for character in text[:_TEXT_SHOWN_MAX])
    return printable + ("..." if len(text) > _TEXT_SHOWN_MAX else "")


def _pubkey(value: Any, name: str) -> None:
    # Strings of other lengths are refused before they are decoded; solders does the rest in compiled code.
    if type(value) is str and 32 <= len(value) <= 44:
        try:
            Pubkey.from_string(value)
        except ValueError:
            pass
        else:
            return
    raise _InvalidError(f"{name}: {_shown(value)} is not a base58 public key of 32 bytes")


def _signature(value: Any, name: str) -> None:
    if type(value) is str and 64 <= len(value) <= 88:
        try:
            Signature.from_string(value)
        except ValueError:
            pass
        else:
            return
    raise _InvalidError(f"{name}: {_shown(value)} is not a base58 signature of 64 bytes")


def _whole_number(value: Any, name: str, largest: int = _U64_MAX, smallest: int = 0) -> int:
    if type(value) is not int or not smallest <= value <= largest:
        raise _InvalidError(f"{name}: wanted a whole number from {smallest} to {largest}")
    return value


def _list(value: Any, name: str, length_max: int) -> list[Any]:
    if type(value) is not list:
        raise _InvalidError(f"{name}: wanted an array")
    if len(value) > length_max:
        raise _InvalidError(f"{name}: {len(value)} entries, at most {length_max} are allowed")
    return value


def _config(arguments: list[Any], index: int) -> dict[str, Any]:
    """The optional configuration object; empty when it is absent or null."""
    value = arguments[index] if len(arguments) > index else None
    if value is None:
        return {}
    if type(value) is not dict:
        raise _InvalidError(f"parameter {index + 1} (configuration) must be an object")
    return value


def _base64(value: Any, name: str, characters_max: int) -> bytes:
    if type(value) is not str:
        raise _InvalidError(f"{name}: wanted a string")
    if len(value) > characters_max:
        raise _InvalidError(f"{name}: {len(value)} characters of base64, at most {characters_max} are allowed")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _InvalidError(f"{name}: not valid base64") from None


# --- changing the bytes


def _appended(raw: bytes, addition: bytes) -> bytes:
    """One more element at the end of a JSON array that has some."""
    return raw.rstrip()[:-1] + b"," + addition + b"]"


def _replaced(raw: bytes, index: int, element: bytes) -> bytes:
    """Another element at this place, or after the last; the others keep their bytes."""
    elements = [bytes(part) for part in _LIST_DECODER.decode(raw)]
    elements[index : index + 1] = [element]
    return b"[" + b",".join(elements) + b"]"


def _with_version(arguments: list[Any], raw: bytes) -> bytes:
    """maxSupportedTransactionVersion 0 where it is left out: to the node, leaving it out means legacy only.

    Parameter 2 may be absent, null, a bare encoding (Agave's older form) or an object.
    """
    value = arguments[1] if len(arguments) > 1 else None
    if type(value) is str:
        value = {"encoding": value}
    elif value is None:
        value = {}
    elif type(value) is not dict:
        raise _InvalidError("parameter 2 must be an object or the name of an encoding")
    if value.get(_VERSION_KEY) is not None:
        _whole_number(value[_VERSION_KEY], _VERSION_KEY, _VERSION_MAX)
        return raw
    if len(arguments) == 1:
        return _appended(raw, b'{"%b":0}' % _VERSION_KEY.encode())
    return _replaced(raw, 1, orjson.dumps({**value, _VERSION_KEY: 0}))


# --- one rule per method


def _first_pubkey(arguments: list[Any], raw: bytes) -> bytes:
    _pubkey(_at(arguments, 0, "public key"), "parameter 1")
    if len(arguments) > 1:
        _config(arguments, 1)
    return raw


def _multiple_accounts(arguments: list[Any], raw: bytes) -> bytes:
    for key in _list(_at(arguments, 0, "public keys"), "parameter 1", _ACCOUNTS_MAX):
        _pubkey(key, "parameter 1")
    _config(arguments, 1)
    return raw


def _signature_statuses(arguments: list[Any], raw: bytes) -> bytes:
    for signature in _list(_at(arguments, 0, "signatures"), "parameter 1", _STATUSES_MAX):
        _signature(signature, "parameter 1")
    _config(arguments, 1)
    return raw


def _signatures_for_address(arguments: list[Any], raw: bytes) -> bytes:
    _pubkey(_at(arguments, 0, "address"), "parameter 1")
    config = _config(arguments, 1)
    if config.get("limit") is not None:
        _whole_number(config["limit"], "limit", _SIGNATURES_LIMIT_MAX, 1)
    for name in ("before", "until"):
        if config.get(name) is not None:
            _signature(config[name], name)
    return raw


def _transaction_by_signature(arguments: list[Any], raw: bytes) -> bytes:
    _signature(_at(arguments, 0, "signature"), "parameter 1")
    return _with_version(arguments, raw)


def _block(arguments: list[Any], raw: bytes) -> bytes:
    _whole_number(_at(arguments, 0, "slot"), "slot")
    return _with_version(arguments, raw)


def _slot(arguments: list[Any], raw: bytes) -> bytes:
    _whole_number(_at(arguments, 0, "slot"), "slot")
    return raw


def _blocks(arguments: list[Any], raw: bytes) -> bytes:
    first = _whole_number(_at(arguments, 0, "start slot"), "start slot")
    # Parameter 2 is the last slot, or already the configuration; null and absent let the node choose the end.
    if len(arguments) > 1 and arguments[1] is not None and type(arguments[1]) is not dict:
        last = _whole_number(arguments[1], "end slot")
        if last - first > _BLOCK_RANGE_MAX:
            raise _InvalidError(f"the range of slots is {last - first}, at most {_BLOCK_RANGE_MAX} is allowed")
    return raw


def _blocks_with_limit(arguments: list[Any], raw: bytes) -> bytes:
    _whole_number(_at(arguments, 0, "start slot"), "start slot")
    _whole_number(_at(arguments, 1, "limit"), "limit", _BLOCK_RANGE_MAX)
    _config(arguments, 2)
    return raw


def _slot_leaders(arguments: list[Any], raw: bytes) -> bytes:
    _whole_number(_at(arguments, 0, "start slot"), "start slot")
    _whole_number(_at(arguments, 1, "limit"), "limit", _LEADERS_MAX)
    return raw


def _performance_samples(arguments: list[Any], raw: bytes) -> bytes:
    if arguments and arguments[0] is not None:
        _whole_number(arguments[0], "limit", _SAMPLES_MAX)
    return raw


def _prioritization_fees(arguments: list[Any], raw: bytes) -> bytes:
    if arguments and arguments[0] is not None:
        for key in _list(arguments[0], "parameter 1", _FEE_ACCOUNTS_MAX):
            _pubkey(key, "parameter 1")
    return raw


def _rent(arguments: list[Any], raw: bytes) -> bytes:
    _whole_number(_at(arguments, 0, "data length"), "data length")
    _config(arguments, 1)
    return raw


def _blockhash(arguments: list[Any], raw: bytes) -> bytes:
    value = _at(arguments, 0, "blockhash")
    if type(value) is str and 32 <= len(value) <= 44:
        try:
            Hash.from_string(value)
        except ValueError:
            pass
        else:
            return raw
    raise _InvalidError(f"blockhash: {_shown(value)} is not a base58 hash of 32 bytes")


def _message(arguments: list[Any], raw: bytes) -> bytes:
    _base64(_at(arguments, 0, "message"), "message", BASE64_CHARACTERS_MAX)
    _config(arguments, 1)
    return raw


def _token_accounts_by_owner(arguments: list[Any], raw: bytes) -> bytes:
    """Rule 4 of the interface: a configuration that is left out becomes {"encoding":"base64"}."""
    _pubkey(_at(arguments, 0, "owner"), "parameter 1")
    wanted = _at(arguments, 1, "mint or programId")
    if type(wanted) is not dict or ("mint" in wanted) == ("programId" in wanted):
        raise _InvalidError('parameter 2 must be {"mint": ...} or {"programId": ...}')
    name = "mint" if "mint" in wanted else "programId"
    _pubkey(wanted[name], name)
    if len(arguments) == 2:
        return _appended(raw, b'{"encoding":"base64"}')
    if arguments[2] is None:
        return _replaced(raw, 2, b'{"encoding":"base64"}')
    _config(arguments, 2)
    return raw


def _send(arguments: list[Any], raw: bytes) -> bytes:
    """Decoded to its last byte, but not verified: that is the node's to do."""
    value = _at(arguments, 0, "transaction")
    encoding = _config(arguments, 1).get("encoding")
    if type(value) is not str:
        raise _InvalidError("transaction: wanted a string")
    if encoding is not None and type(encoding) is not str:
        raise _InvalidError("encoding: wanted base58 or base64")
    try:
        decode_transaction(value, encoding or "base58")
    except TransactionRefused as fault:
        raise _InvalidError(f"transaction: {fault}") from None
    return raw


RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {
        "getAccountInfo": _first_pubkey,
        "getBalance": _first_pubkey,
        "getTokenAccountBalance": _first_pubkey,
        "getTokenSupply": _first_pubkey,
        "getMultipleAccounts": _multiple_accounts,
        "getSignatureStatuses": _signature_statuses,
        "getSignaturesForAddress": _signatures_for_address,
        "getTransaction": _transaction_by_signature,
        "getBlock": _block,
        "getBlockTime": _slot,
        "getBlockCommitment": _slot,
        "getBlocks": _blocks,
        "getBlocksWithLimit": _blocks_with_limit,
        "getSlotLeaders": _slot_leaders,
        "getRecentPerformanceSamples": _performance_samples,
        "getRecentPrioritizationFees": _prioritization_fees,
        "getMinimumBalanceForRentExemption": _rent,
        "isBlockhashValid": _blockhash,
        "getFeeForMessage": _message,
        "getTokenAccountsByOwner": _token_accounts_by_owner,
        "sendTransaction": _send,
        "simulateTransaction": _send,
    }
)
