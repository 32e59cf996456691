import struct

import pytest
from solders.pubkey import Pubkey

from devnode.parsing.bincode import Fields

A = Pubkey.from_bytes(b"\x01" * 32)


def test_fields_are_read_in_their_order() -> None:
    data = (
        b"\x05" + struct.pack("<IQqd", 6, 7, -8, 0.5) + bytes(A) + b"\x01\x09" + b"\x00" + struct.pack("<Q", 2) + b"ab"
    )
    fields = Fields(data)
    assert (fields.u8(), fields.u32(), fields.u64(), fields.i64(), fields.take("<d")) == (5, 6, 7, -8, 0.5)
    assert fields.key() == str(A)
    assert (fields.optional(fields.u8), fields.optional(fields.u8)) == (9, None)
    assert fields.listed(fields.u8) == [97, 98]


def test_a_list_longer_than_the_data_ends_with_it() -> None:
    """The claimed length reserves nothing: the first entry that is not there ends the reading."""
    fields = Fields(struct.pack("<Q", 2**63) + b"ab")
    with pytest.raises(struct.error):
        fields.listed(fields.u8)


def test_what_is_not_there_is_not_made_up() -> None:
    for read in (lambda: Fields(b"\x02").optional(int), lambda: Fields(b"abc").raw(4), Fields(bytes(31)).key):
        with pytest.raises(ValueError, match=r"flag|early"):
            read()
