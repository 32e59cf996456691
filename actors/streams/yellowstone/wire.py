"""Cuts messages of protobuf into their fields without decoding what is in them.

Implements: protobuf's wire format, as far as messages of the stream use it. Pure.
Decoding a message of 20 MB, or of millions of parts, is one step of C that nothing else of the process can interrupt.
"""

from collections.abc import Iterator

from google.protobuf.message import DecodeError

_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED_64: 8, _FIXED_32: 4}

Field = tuple[int, int, int, int]  # Its number; where it begins, its value begins, and it ends.


def fields(raw: bytes, at: int = 0, end: int | None = None) -> Iterator[Field]:
    """The fields of the message between two places. Raises DecodeError where there is none."""
    stop = len(raw) if end is None else end
    while at < stop:
        start = at
        tag, at = _varint(raw, at)
        kind, value = tag & 7, at
        if kind == _LENGTH_DELIMITED:
            size, value = _varint(raw, at)
            at = value + size
        elif kind == _VARINT:
            _, at = _varint(raw, at)
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            raise DecodeError("a field of no known kind")
        if at > stop:
            raise DecodeError("a field ends after its message")
        yield tag >> 3, start, value, at


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(raw) and shift < 70:
        byte, at = raw[at], at + 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
        shift += 7
    raise DecodeError("a number has no end")


def encoded_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
