"""Compressed sets of accounts: asked, not built.

Implements: membership in a `CuckooFilter` of the stream's format: SipHash-2-4, four 16-bit fingerprints to a bucket,
two candidate buckets for each key. Never misses a member; may find a stranger, as everywhere. Pure.
"""

from dataclasses import dataclass

from nacl.encoding import RawEncoder
from nacl.hash import siphash24

from actors.geyser_proto import geyser_pb2

ENTRIES_PER_BUCKET = 4
FINGERPRINT_BITS = 16
_FINGERPRINT_BYTES = FINGERPRINT_BITS // 8
_MASK = 2**64 - 1
# What is hashed is a serialized array: its length as eight bytes, then the key.
_KEY_PREFIX = (32).to_bytes(8, "little")


class BadCuckoo(Exception):
    """Not a filter that anything can be asked of; the text says why."""


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
    """Raises BadCuckoo where the parts do not fit together."""
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
