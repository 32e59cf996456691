"""Writes a table of whole numbers, times and texts as an Apache Parquet file.

Implements: actors/accounts/README.md, "Listings of the ledger". Pure. The least of the format that all readers take:
one group of rows, one page a column, plain values, no compression, and the metadata in Thrift's compact protocol
(https://parquet.apache.org/docs/file-format/).

Why not pyarrow, which reads the file in the tests and in the client: its import holds an event loop for 12 ms and takes
45 MB of each replica, its first table 47 ms and 60 MB more, for pages of 500 rows; and it is an optional extra here.
Not here: reading files, and larger tables than one answer has.
"""

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

_MAGIC = b"PAR1"
_INT64, _BYTE_ARRAY = 2, 6
_REQUIRED, _OPTIONAL = 0, 1
_PLAIN, _RLE = 0, 3
_UTF8, _TIMESTAMP_MILLIS = 0, 9  # Names of these types in older readers.
_CREATED_BY = "ledger-gateway"


class ColumnKind(IntEnum):
    """Kind of a column: integers of 64 bits, Unix milliseconds, or texts."""

    NUMBER = 0
    TIME_MS = 1
    TEXT = 2


class Column(NamedTuple):
    """optional: values may be None."""

    name: str
    kind: ColumnKind
    optional: bool = False


def parquet_file(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> bytes:
    """Make the file. rows: one value for each column, in order."""
    parts, offset, chunks = [_MAGIC], len(_MAGIC), []
    for place, column in enumerate(columns):
        page = _page(column, [row[place] for row in rows])
        size = len(page)
        kind = _BYTE_ARRAY if column.kind is ColumnKind.TEXT else _INT64
        told = _struct(
            (1, kind),
            (2, [_PLAIN, _RLE]),
            (3, [column.name]),
            (4, 0),  # Uncompressed.
            (5, _Long(len(rows))),
            (6, _Long(size)),
            (7, _Long(size)),
            (9, _Long(offset)),
        )
        chunks.append(_struct((2, _Long(offset)), (3, told)))
        parts.append(page)
        offset += size
    group = _struct((1, chunks), (2, _Long(offset - len(_MAGIC))), (3, _Long(len(rows))))
    schema = [_struct((4, "schema"), (5, len(columns))), *map(_element, columns)]
    footer = _struct((1, 1), (2, schema), (3, _Long(len(rows))), (4, [group]), (6, _CREATED_BY)).encoded
    return b"".join((*parts, footer, struct.pack("<I", len(footer)), _MAGIC))


def _page(column: Column, values: list[Any]) -> bytes:
    """Make one column's page, with its header."""
    present = [value for value in values if value is not None] if column.optional else values
    if column.kind is ColumnKind.TEXT:
        texts = [value.encode() for value in present]
        data = b"".join([struct.pack("<I", len(text)) + text for text in texts])
    else:
        data = struct.pack(f"<{len(present)}q", *present)
    if column.optional:
        levels = _levels(value is not None for value in values)
        data = struct.pack("<I", len(levels)) + levels + data
    header = _struct((1, len(values)), (2, _PLAIN), (3, _RLE), (4, _RLE))
    return _struct((1, 0), (2, len(data)), (3, len(data)), (5, header)).encoded + data


def _levels(present: Iterable[bool]) -> bytes:
    """Encode which values are present, as runs."""
    found, run, last = bytearray(), 0, False
    for is_there in present:
        if is_there != last and run:
            found += _varint(run << 1) + bytes((last,))
            run = 0
        last = is_there
        run += 1
    return bytes(found + _varint(run << 1) + bytes((last,))) if run else b""


def _element(column: Column) -> "_Struct":
    repetition = _OPTIONAL if column.optional else _REQUIRED
    if column.kind is ColumnKind.TEXT:
        logical = _struct((1, _struct()))
        return _struct((1, _BYTE_ARRAY), (3, repetition), (4, column.name), (6, _UTF8), (10, logical))
    if column.kind is ColumnKind.NUMBER:
        return _struct((1, _INT64), (3, repetition), (4, column.name))
    logical = _struct((8, _struct((1, True), (2, _struct((1, _struct()))))))  # UTC, in milliseconds.
    return _struct((1, _INT64), (3, repetition), (4, column.name), (6, _TIMESTAMP_MILLIS), (10, logical))


# --- Thrift's compact protocol, as far as the metadata needs it


class _Long(int):
    """An integer of 64 bits; a bare one has 32."""


class _Struct(NamedTuple):
    encoded: bytes


_Value = bool | int | str | _Struct | list[Any]


def _struct(*fields: tuple[int, _Value]) -> _Struct:
    """fields: number and value, by ascending number, each at most 15 above the one before."""
    out, last = bytearray(), 0
    for number, value in fields:
        out.append((number - last) << 4 | _type(value))
        last = number
        if not isinstance(value, bool):  # The type of a bool contains its value.
            out += _encoded(value)
    return _Struct(bytes(out + b"\x00"))


def _type(value: _Value) -> int:
    if isinstance(value, bool):
        return 1 if value else 2
    if isinstance(value, int):
        return 6 if isinstance(value, _Long) else 5
    return 8 if isinstance(value, str) else 12 if isinstance(value, _Struct) else 9


def _encoded(value: _Value) -> bytes:
    if isinstance(value, _Struct):
        return value.encoded
    if isinstance(value, int):
        return _varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, str):
        text = value.encode()
        return _varint(len(text)) + text
    kind = _type(value[0]) if value else 5
    head = bytes((len(value) << 4 | kind,)) if len(value) < 15 else bytes((0xF0 | kind,)) + _varint(len(value))
    return head + b"".join(map(_encoded, value))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
