"""Parses bodies and queries of the operators' pages, and words their faults.

Implements: decisions, "The operators' page". Pure.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from actors.errors import Err, Refusal

_REASON = msgspec.Meta(min_length=1, max_length=200)
_BIG = 10**15
_BYTES_MAX = 16_384  # Limit of a body; all kinds are far smaller.
_KEY_CHARACTERS_MAX = 255
Reason = Annotated[str, _REASON]
NODE_ID = r"^[a-z0-9][a-z0-9-]{0,31}$"


class Because(msgspec.Struct, forbid_unknown_fields=True):
    """reason: as in the commands."""

    reason: Reason


class Adjust(Because):
    """credits: an integer; below zero they are removed."""

    credits: Annotated[int, msgspec.Meta(ge=-_BIG, le=_BIG)]


class Limits(msgspec.Struct, forbid_unknown_fields=True):
    """null: the default from now on. Missing: unchanged."""

    requests_per_second: int | msgspec.UnsetType | None = msgspec.UNSET
    concurrency: int | msgspec.UnsetType | None = msgspec.UNSET


class GivenList(msgspec.Struct, forbid_unknown_fields=True):
    """name: of a price list of the settings, or `public`."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=32)]


class Assign(Because):
    """transfer: its index, where several of the transaction are listed."""

    pubkey: Annotated[str, msgspec.Meta(max_length=64)]
    transfer: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] | None = None


class AddedNode(msgspec.Struct, forbid_unknown_fields=True):
    """unreachable: accept a node that does not answer now."""

    id: Annotated[str, msgspec.Meta(pattern=NODE_ID)]
    url: Annotated[str, msgspec.Meta(min_length=8, max_length=2_048)]
    ws_url: Annotated[str, msgspec.Meta(min_length=6, max_length=2_048)] | None = None
    weight: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 1
    roles: Annotated[list[str], msgspec.Meta(min_length=1, max_length=3)] = msgspec.field(
        default_factory=lambda: ["read", "send"]
    )
    unreachable: bool = False


class ChangedNode(msgspec.Struct, forbid_unknown_fields=True):
    """unreachable: accept it even if no other node answers now."""

    weight: Annotated[int, msgspec.Meta(ge=0, le=1_000)] | None = None
    drained: bool | None = None
    unreachable: bool = False


class _Twice(Exception):
    """A field occurs twice, so its meaning is ambiguous."""


Body = TypeVar("Body", bound=msgspec.Struct)


def decoded(body: bytes, kind: type[Body]) -> Body | Refusal:
    """Parse a body as one of the kinds above. The error names the field and never repeats its value."""
    if len(body) > _BYTES_MAX:
        return Refusal(Err.INVALID_REQUEST, f"the body is longer than {_BYTES_MAX} bytes")
    try:
        value = json.loads(body or b"{}", object_pairs_hook=_once)
        return msgspec.convert(value, kind)
    except _Twice:
        return Refusal(Err.INVALID_REQUEST, f"the body has a field twice; it has {_fields(kind)}")
    except msgspec.ValidationError as error:
        return Refusal(Err.INVALID_REQUEST, _sentence(str(error), kind))
    except (ValueError, RecursionError):
        return Refusal(Err.INVALID_REQUEST, f"the body must be a JSON object with {_fields(kind)}")


def chosen(query: Mapping[str, str], **allowed: str) -> dict[str, str] | Refusal:
    """Return the parameters of a query, with these defaults for those that are left out."""
    unknown = sorted(set(query) - set(allowed))
    if unknown:
        return Refusal(Err.INVALID_REQUEST, f"parameters are {', '.join(allowed) or 'none'}")
    return allowed | dict(query)


def number_in(text: str, least: int, most: int) -> int | None:
    """Parse an integer. None: it is malformed or out of range."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        return None
    return int(text) if least <= int(text) <= most else None


def operation_of(idempotency_key: str | None) -> str | Refusal:
    """Return the operation name of a change of credits, so that a repeated request moves them once."""
    if idempotency_key is None or not 1 <= len(idempotency_key) <= _KEY_CHARACTERS_MAX:
        text = (
            f"send an Idempotency-Key of 1 to {_KEY_CHARACTERS_MAX} characters: a repeated request then moves nothing"
        )
        return Refusal(Err.INVALID_REQUEST, f"{text} a second time")
    return f"operator:{hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Twice
    return value


def _sentence(fault: str, kind: type[msgspec.Struct]) -> str:
    return f"{fault.replace('`', '')}; the body has {_fields(kind)}"


def _fields(kind: type[msgspec.Struct]) -> str:
    return ", ".join(f"{one.name}{'' if one.required else ' (optional)'}" for one in msgspec.structs.fields(kind))
