"""Bodies that one coder began and stored blocks end: whoever decodes them has the bytes of before."""

import gzip
import random

import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.gateway.calls.compressing_worker import Bodies, CompressPiece
from actors.gateway.calls.uncompressed_rest import rest_of

CODINGS = ("gzip", "zstd")
NOISE = random.Random(1).randbytes(300_000)
BLOCK = 128 << 10


def decoded(coding: str, whole: bytes) -> bytes:
    if coding == "gzip":
        return gzip.decompress(whole)
    reader = zstandard.ZstdDecompressor().decompressobj()
    found: bytes = reader.decompress(whole)
    assert reader.eof and not reader.unused_data  # One frame, which browsers read to its end.
    return found


def made(coding: str, pieces: list[bytes], compressed: int) -> bytes:
    """The first pieces by the program, the others by what goes on without it."""
    program, whole, out, done, checked = Bodies(), sum(map(len, pieces)), [], 0, 0
    for number, piece in enumerate(pieces[:compressed], 1):
        request = CompressPiece(1, coding, len(piece), whole, is_last=number == len(pieces))
        checked, answer = program.do(request, piece)
        out += answer
        done += len(piece)
    if compressed < len(pieces):
        rest = rest_of(coding.encode(), done, checked, whole)
        for number, piece in enumerate(pieces[compressed:], compressed + 1):
            out.append(rest.piece(memoryview(piece), number == len(pieces)))
    assert all(out)  # An empty piece would end a body in chunks.
    return b"".join(out)


@settings(max_examples=60)
@given(
    coding=st.sampled_from(CODINGS),
    sizes=st.lists(
        st.one_of(st.integers(1, 9_000), st.sampled_from((BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK))),
        min_size=1,
        max_size=6,
    ),
    compressed=st.integers(0, 6),
    is_noise=st.booleans(),
)
def test_wherever_the_program_is_lost_the_body_is_whole(
    coding: str, sizes: list[int], compressed: int, is_noise: bool
) -> None:
    """Before the first piece, between any two, or never; of text and of bytes that do not become shorter."""
    pieces = [NOISE[:size] if is_noise else (b'{"lamports":%d},' % size * size)[:size] for size in sizes]
    assert decoded(coding, made(coding, pieces, compressed)) == b"".join(pieces)
