"""Encodes and decodes records of accounts and events, which only ever grow at their end.

Implements: little-endian Borsh for the types that the launch programs use. In an older, shorter record the missing
fields are zero; a record that ends inside a field, or is invalid, decodes to None.
Pure. Not here: the fields of each record (curve_account.py, configs.py, events.py).
"""

from functools import cache
from inspect import get_annotations
from itertools import groupby
from struct import Struct
from typing import Annotated, Any, ClassVar, NamedTuple

from solders.pubkey import Pubkey

Fields = tuple[tuple[str, str], ...]  # (Name, type), in the order of the bytes.
KEY_BYTES = 32
# More than any real record has. Without it, a wrong count would make the decoder loop for a long time.
ELEMENTS_MAX = 256
_UNSIGNED = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "u128": 16}
_SIGNED = {"i64": 8, "i128": 16}
# Of the types with one size, as `struct` names them.
_FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "bool": "?", "key": f"{KEY_BYTES}s"}
_EMPTY: dict[str, Any] = {"bool": False, "key": Pubkey.default(), "string": "", "shares": ()}


# Types of fields, each with its name in `Fields`.
Key = Annotated[Pubkey, "key"]
Text = Annotated[str, "string"]
Flag = Annotated[bool, "bool"]
U8 = Annotated[int, "u8"]
U16 = Annotated[int, "u16"]
U64 = Annotated[int, "u64"]
I64 = Annotated[int, "i64"]
I128 = Annotated[int, "i128"]
Shares = Annotated[tuple[tuple[Pubkey, int], ...], "shares"]


class BorshRecord:
    """Base of a dataclass whose fields have the types above, in the order of the bytes."""

    __slots__ = ()
    FIELDS: ClassVar[Fields]

    def __init_subclass__(cls) -> None:
        annotated = get_annotations(cls).items()
        cls.FIELDS = tuple((name, kind.__metadata__[0]) for name, kind in annotated if hasattr(kind, "__metadata__"))


class EventRecord(BorshRecord):
    """Base of an event as Anchor encodes it."""

    __slots__ = ()
    DISCRIMINATOR: ClassVar[bytes]


class Overflow(OverflowError):
    """A number does not fit its field."""


class _Truncated(Exception):
    pass


def encode(fields: Fields, values: dict[str, Any]) -> bytes:
    """Encode a record. Raises Overflow if a number does not fit its field."""
    return b"".join(_encoded(kind, values[name]) for name, kind in fields)


def _encoded(kind: str, value: Any) -> bytes:
    if kind == "key":
        return bytes(value)
    if kind == "bool":
        return b"\x01" if value else b"\x00"
    if kind == "string":
        text: bytes = str(value).encode()
        return len(text).to_bytes(4, "little") + text
    if kind == "shares":
        parts = [bytes(key) + bps.to_bytes(2, "little") for key, bps in value]
        return len(parts).to_bytes(4, "little") + b"".join(parts)
    size = _UNSIGNED.get(kind) or _SIGNED[kind]
    try:
        return int(value).to_bytes(size, "little", signed=kind in _SIGNED)
    except OverflowError:
        raise Overflow(f"{value} does not fit {kind}") from None


def decode(fields: Fields, data: bytes, offset: int = 0) -> dict[str, Any] | None:
    """Decode a record. Ignores bytes after the last field, which newer programs append."""
    values: dict[str, Any] = {}
    try:
        for run in _runs(fields):
            end = offset + run.layout.size
            if run.layout.size and end <= len(data):
                values.update(zip(run.names, run.layout.unpack_from(data, offset), strict=True))
                for name in run.keys:
                    values[name] = Pubkey.from_bytes(values[name])
                offset = end
                continue
            for name, kind in run.fields:
                if offset == len(data):
                    values[name] = empty(kind)
                else:
                    values[name], offset = _decoded(kind, data, offset)
    except (_Truncated, UnicodeDecodeError):
        return None
    return values


class _Run(NamedTuple):
    """Consecutive fields. layout: of their bytes; empty where a field has no fixed size. keys: names of keys."""

    fields: Fields
    names: tuple[str, ...]
    keys: tuple[str, ...]
    layout: Struct


@cache
def _runs(fields: Fields) -> tuple[_Run, ...]:
    """Divide a record into runs of fields that `struct` reads in one step: events of trades come by the thousand."""
    found = []
    for is_fixed, group in groupby(fields, lambda field: field[1] in _FORMATS):
        run = tuple(group)
        layout = Struct("<" + "".join(_FORMATS[kind] for _, kind in run) if is_fixed else "")
        names = tuple(name for name, _ in run)
        found.append(_Run(run, names, tuple(name for name, kind in run if kind == "key"), layout))
    return tuple(found)


@cache
def fixed_size(fields: Fields) -> int | None:
    """Return how many bytes these fields take. None: it depends on their values."""
    return _runs(fields)[0].layout.size if all(kind in _FORMATS for _, kind in fields) else None


def empty(kind: str) -> Any:
    return _EMPTY.get(kind, 0)


def _take(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise _Truncated
    return data[offset : offset + size]


def _decoded(kind: str, data: bytes, offset: int) -> tuple[Any, int]:
    if kind == "key":
        return Pubkey.from_bytes(_take(data, offset, KEY_BYTES)), offset + KEY_BYTES
    if kind == "bool":
        return _take(data, offset, 1) != b"\x00", offset + 1
    if kind == "string":
        size = int.from_bytes(_take(data, offset, 4), "little")
        return _take(data, offset + 4, size).decode(), offset + 4 + size
    if kind == "shares":
        return _shares(data, offset)
    size = _UNSIGNED.get(kind) or _SIGNED[kind]
    return int.from_bytes(_take(data, offset, size), "little", signed=kind in _SIGNED), offset + size


def _shares(data: bytes, offset: int) -> tuple[tuple[tuple[Pubkey, int], ...], int]:
    count = int.from_bytes(_take(data, offset, 4), "little")
    if count > ELEMENTS_MAX:
        raise _Truncated
    offset += 4
    found = []
    for _ in range(count):
        part = _take(data, offset, KEY_BYTES + 2)
        found.append((Pubkey.from_bytes(part[:KEY_BYTES]), int.from_bytes(part[KEY_BYTES:], "little")))
        offset += KEY_BYTES + 2
    return tuple(found), offset
