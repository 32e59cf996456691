"""Membership tests in compressed sets of accounts (cuckoo filters) that clients send.

Implements: the `CuckooFilter` of the stream's format: SipHash-2-4, four 16-bit fingerprints in a bucket, two candidate
buckets for each key. A member is always found; another key may be found by chance. Pure.
"""

from dataclasses import dataclass

from nacl.encoding import RawEncoder
from nacl.hash import siphash24

from actors.geyser_proto import geyser_pb2

ENTRIES_PER_BUCKET = 4
FINGERPRINT_BITS = 16
_FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
_MASK = 2**64 - 1
# The hash is over a serialized array: its length in eight bytes, then the key.
_KEY_PREFIX = (32).to_bytes(8, "little")


class BadCuckoo(Exception):
    """The filter is not valid; the text says why."""


@dataclass(frozen=True, slots=True)
class Cuckoo:
    data: bytes
    buckets: int  # A power of two.
    siphash_key: bytes

    def __contains__(self, pubkey: bytes) -> bool:
        hashed = self._hash(_KEY_PREFIX + pubkey)
        fingerprint = ((hashed >> 32) & 0xFFFF or 1).to_bytes(_FINGERPRINT_BYTES, "little")
        first = hashed & (self.buckets - 1)
        second = first ^ (self._hash(fingerprint) & (self.buckets - 1))
        return self._holds(first, fingerprint) or self._holds(second, fingerprint)

    def _holds(self, bucket: int, fingerprint: bytes) -> bool:
        start = bucket * ENTRIES_PER_BUCKET * _FINGERPRINT_BYTES
        slots = range(start, start + ENTRIES_PER_BUCKET * _FINGERPRINT_BYTES, _FINGERPRINT_BYTES)
        return any(self.data[at : at + _FINGERPRINT_BYTES] == fingerprint for at in slots)

    def _hash(self, item: bytes) -> int:
        return int.from_bytes(siphash24(item, key=self.siphash_key, encoder=RawEncoder), "little")


def read_cuckoo(message: geyser_pb2.CuckooFilter) -> Cuckoo:
    """Check and read a filter. Raises BadCuckoo if its parts contradict each other."""
    buckets, seed = message.bucket_count, message.hash_seed
    if message.hash_algorithm != geyser_pb2.SIP_HASH:
        raise BadCuckoo(f"unknown hash algorithm {message.hash_algorithm} of a cuckoo filter")
    if message.fingerprint_bits != FINGERPRINT_BITS or message.entries_per_bucket != ENTRIES_PER_BUCKET:
        raise BadCuckoo("a cuckoo filter has 4 entries of 16 bits to a bucket")
    if buckets == 0 or buckets & (buckets - 1):
        raise BadCuckoo(f"{buckets} buckets of a cuckoo filter, wanted a power of two")
    if len(message.data) != buckets * ENTRIES_PER_BUCKET * _FINGERPRINT_BYTES:
        raise BadCuckoo(f"{len(message.data)} bytes do not make {buckets} buckets of a cuckoo filter")
    rotated = (seed << 32 | seed >> 32) & _MASK
    return Cuckoo(message.data, buckets, seed.to_bytes(8, "little") + rotated.to_bytes(8, "little"))
