"""Cuckoo filters built by a client's library."""

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.geyser_proto import geyser_pb2
from devnode.encoding.addresses import SYSTEM_PROGRAM, SYSVAR_CLOCK, TOKEN_PROGRAM, VOTE_PROGRAM
from devnode.geyser.cuckoo import BadCuckoo, read_cuckoo

MEMBERS = (TOKEN_PROGRAM, SYSTEM_PROGRAM, SYSVAR_CLOCK, VOTE_PROGRAM)
# Built from the members above by @triton-one/yellowstone-grpc 7.0.1 (CompressedAccountFilterSet).
DATA = bytes.fromhex(
    "000000000000000047701e500000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000000002b4879700000000"
)
SEED = 8749487436367949345


def message(**changed: object) -> geyser_pb2.CuckooFilter:
    fields = {"data": DATA, "bucket_count": 8, "entries_per_bucket": 4, "fingerprint_bits": 16, "hash_seed": SEED}
    return geyser_pb2.CuckooFilter(**(fields | changed))


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_every_member_is_found(member: Pubkey) -> None:
    """The algorithm must agree exactly: with another hash or layout, members would not be found."""
    assert bytes(member) in read_cuckoo(message())


def test_other_keys_are_rarely_found() -> None:
    """With four members of 16 bits, about one other key in ten thousand is found by chance."""
    known = read_cuckoo(message())
    strangers = (bytes(Keypair.from_seed(bytes([n, m]) * 16).pubkey()) for n in range(8) for m in range(32))
    assert sum(stranger in known for stranger in strangers) <= 1


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"bucket_count": 7}, "power of two"),
        ({"bucket_count": 0}, "power of two"),
        ({"bucket_count": 16}, "do not make 16 buckets"),
        ({"data": b""}, "0 bytes"),
        ({"fingerprint_bits": 8}, "4 entries of 16 bits"),
        ({"entries_per_bucket": 2}, "4 entries of 16 bits"),
    ],
)
def test_contradicting_parts_are_refused(changed: dict[str, object], text: str) -> None:
    """Otherwise a client could make the node read beyond the data."""
    with pytest.raises(BadCuckoo, match=text):
        read_cuckoo(message(**changed))
