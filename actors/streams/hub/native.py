"""The subscriptions of the chain's nodes: their methods, and the check of their parameters.

Implements: interface, "WebSocket /ws"; decisions, "native WebSocket subscriptions". Pure.
A subscription is reduced to its canonical form: the same notifications, the same form. So subscriptions that only
differ in how they are written share one at the node: fields that a node ignores and defaults are left out, and names
are sorted. Every refusal is free.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import base58
import orjson

from actors.errors import Err, Refusal
from actors.units import parse_pubkey

NODE_MESSAGE_BYTES_MAX = 4_096  # Of a node, for one message; the rest of the request needs some of it.
_PARAMS_BYTES_MAX = NODE_MESSAGE_BYTES_MAX - 128
_SIGNATURE_BYTES, _SIGNATURE_CHARACTERS_MAX = 64, 88
_FILTERS_MAX = 4
_MEMCMP_CHARACTERS_MAX = 175  # 128 bytes in base58.
_U64_MAX = (1 << 64) - 1
_COMMITMENTS = ("processed", "confirmed", "finalized")
_ACCOUNT_ENCODINGS = ("binary", "base58", "base64", "base64+zstd", "jsonParsed")
_BLOCK_ENCODINGS = ("json", "jsonParsed", "base58", "base64", "binary")
_BLOCK_DETAILS = ("full", "signatures", "none", "accounts")


@dataclass(frozen=True, slots=True)
class TopicKey:
    """What is subscribed to at a node: method, and canonical parameters as JSON."""

    method: str
    params: bytes

    @property
    def notification(self) -> str:
        return f"{self.method.removesuffix('Subscribe')}Notification"

    @property
    def ends(self) -> bool:
        """Whether the node ends such a subscription by itself, with its last notification."""
        return self.method == "signatureSubscribe"

    @property
    def follows_root(self) -> bool:
        """Whether events come for slots behind the newest one, and as far back as the root: a gap then begins there."""
        return self.method not in ("slotSubscribe", "voteSubscribe") and b'"commitment":"processed"' not in self.params


class _InvalidError(Exception):
    """The text is one sentence for the client."""


def read(method: str, arguments: list[Any]) -> TopicKey | Refusal:
    """The canonical form of a subscription, or INVALID_PARAMS. method: one of METHODS."""
    try:
        params = METHODS[method](arguments)
    except _InvalidError as error:
        return Refusal(Err.INVALID_PARAMS, str(error))
    text = orjson.dumps(params, option=orjson.OPT_SORT_KEYS)
    if len(text) > _PARAMS_BYTES_MAX:
        return Refusal(Err.INVALID_PARAMS, f"the parameters are longer than {_PARAMS_BYTES_MAX} bytes")
    return TopicKey(method, text)


def _account(arguments: list[Any]) -> list[Any]:
    config = _config(arguments, 2)
    _check_slice(config)
    return _with([_pubkey(_at(arguments, 0))], _commitment(config) | _one_of(config, "encoding", _ACCOUNT_ENCODINGS))


def _program(arguments: list[Any]) -> list[Any]:
    config = _config(arguments, 2)
    _check_slice(config)
    kept = _commitment(config) | _one_of(config, "encoding", _ACCOUNT_ENCODINGS)
    filters = config.get("filters")
    if filters is not None:
        if not isinstance(filters, list) or len(filters) > _FILTERS_MAX:
            raise _InvalidError(f"filters must be an array of at most {_FILTERS_MAX}")
        if filters:
            kept["filters"] = [_filter(item) for item in filters]
    return _with([_pubkey(_at(arguments, 0))], kept)


def _logs(arguments: list[Any]) -> list[Any]:
    wanted, config = _at(arguments, 0), _config(arguments, 2)
    if isinstance(wanted, dict):
        mentions = wanted.get("mentions")
        if set(wanted) != {"mentions"} or not isinstance(mentions, list):
            raise _InvalidError('the filter must be "all", "allWithVotes" or {"mentions": [address]}')
        if len(mentions) != 1:
            raise _InvalidError("Only 1 address supported")
        wanted = {"mentions": [_pubkey(mentions[0])]}
    elif wanted not in ("all", "allWithVotes"):
        raise _InvalidError('the filter must be "all", "allWithVotes" or {"mentions": [address]}')
    return _with([wanted], _commitment(config))


def _signature(arguments: list[Any]) -> list[Any]:
    text, config = _at(arguments, 0), _config(arguments, 2)
    if not isinstance(text, str) or len(text) > _SIGNATURE_CHARACTERS_MAX or not _is_signature(text):
        raise _InvalidError("Invalid signature provided")
    kept = _commitment(config)
    if _flag(config, "enableReceivedNotification"):
        kept["enableReceivedNotification"] = True
    return _with([text], kept)


def _block(arguments: list[Any]) -> list[Any]:
    wanted, config = _at(arguments, 0), _config(arguments, 2)
    if isinstance(wanted, dict) and set(wanted) == {"mentionsAccountOrProgram"}:
        wanted = {"mentionsAccountOrProgram": _pubkey(wanted["mentionsAccountOrProgram"])}
    elif wanted != "all":
        raise _InvalidError('the filter must be "all" or {"mentionsAccountOrProgram": address}')
    kept = _commitment(config)
    if kept.get("commitment") == "processed":
        raise _InvalidError("blocks are notified at confirmed or finalized")
    kept |= _one_of(config, "encoding", _BLOCK_ENCODINGS, default="base64")
    kept |= _one_of(config, "transactionDetails", _BLOCK_DETAILS, default="full")
    if _flag(config, "showRewards"):
        kept["showRewards"] = True
    version = config.get("maxSupportedTransactionVersion")
    if version is not None:
        kept["maxSupportedTransactionVersion"] = _unsigned(version, "maxSupportedTransactionVersion", 255)
    return _with([wanted], kept)


def _nothing(arguments: list[Any]) -> list[Any]:
    if arguments:
        raise _InvalidError("this subscription takes no parameters")
    return []


METHODS: MappingProxyType[str, Callable[[list[Any]], list[Any]]] = MappingProxyType(
    {
        "accountSubscribe": _account,
        "programSubscribe": _program,
        "logsSubscribe": _logs,
        "signatureSubscribe": _signature,
        "blockSubscribe": _block,
        "slotSubscribe": _nothing,
        "rootSubscribe": _nothing,
        "slotsUpdatesSubscribe": _nothing,
        "voteSubscribe": _nothing,
    }
)


# --- values


def _with(first: list[Any], config: dict[str, Any]) -> list[Any]:
    return [*first, config] if config else first


def _at(arguments: list[Any], index: int) -> Any:
    if len(arguments) <= index:
        raise _InvalidError(f"parameter {index + 1} is missing")
    return arguments[index]


def _config(arguments: list[Any], length_max: int) -> dict[str, Any]:
    """The configuration object, which comes last and may be left out. Fields that a node does not know are ignored."""
    if len(arguments) > length_max:
        raise _InvalidError(f"at most {length_max} parameters are taken")
    config = arguments[length_max - 1] if len(arguments) == length_max else None
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise _InvalidError("the configuration must be an object")
    return config


def _pubkey(value: Any) -> str:
    if not isinstance(value, str) or parse_pubkey(value) is None:
        raise _InvalidError("Invalid pubkey provided")
    return value


def _is_signature(text: str) -> bool:
    try:
        return len(base58.b58decode(text)) == _SIGNATURE_BYTES
    except ValueError:
        return False


def _commitment(config: dict[str, Any]) -> dict[str, Any]:
    return _one_of(config, "commitment", _COMMITMENTS, default="finalized")


def _one_of(config: dict[str, Any], name: str, choices: tuple[str, ...], default: str | None = None) -> dict[str, Any]:
    """The field, where it is given and not the default."""
    value = config.get(name)
    if value is None or value == default:
        return {}
    if not isinstance(value, str) or value not in choices:
        raise _InvalidError(f"{name} must be one of {', '.join(choices)}")
    return {name: value}


def _flag(config: dict[str, Any], name: str) -> bool:
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise _InvalidError(f"{name} must be true or false")
    return bool(value)


def _unsigned(value: Any, name: str, largest: int = _U64_MAX) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise _InvalidError(f"{name} must be a whole number from 0 to {largest}")
    return value


def _check_slice(config: dict[str, Any]) -> None:
    """A node reads it and ignores it: notifications have the whole data."""
    piece = config.get("dataSlice")
    if piece is None:
        return
    if not isinstance(piece, dict):
        raise _InvalidError("dataSlice must be an object")
    for name in ("offset", "length"):
        _unsigned(piece.get(name), f"dataSlice.{name}")


def _filter(item: Any) -> Any:
    if item == "tokenAccountState":
        return item
    if isinstance(item, dict) and set(item) == {"dataSize"}:
        return {"dataSize": _unsigned(item["dataSize"], "dataSize")}
    if isinstance(item, dict) and set(item) == {"memcmp"} and isinstance(item["memcmp"], dict):
        memcmp = item["memcmp"]
        kept = {"offset": _unsigned(memcmp.get("offset"), "memcmp.offset"), "bytes": memcmp.get("bytes")}
        if not isinstance(kept["bytes"], str) or len(kept["bytes"]) > _MEMCMP_CHARACTERS_MAX:
            raise _InvalidError(f"memcmp.bytes must be a text of at most {_MEMCMP_CHARACTERS_MAX} characters")
        return {"memcmp": kept | _one_of(memcmp, "encoding", ("base58", "base64"), default="base58")}
    raise _InvalidError('a filter is {"dataSize": n}, {"memcmp": {...}} or "tokenAccountState"')
