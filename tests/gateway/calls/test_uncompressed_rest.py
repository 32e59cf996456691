"""Bodies that one coder began and stored blocks end: whoever decodes them has the bytes of before."""

import gzip
import random

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.gateway.calls.compressing_worker import Bodies, CompressPiece, ForgetBody
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


@pytest.mark.parametrize("coding", CODINGS)
def test_what_the_program_made_so_far_can_be_read_at_once(coding: str) -> None:
    """Each piece is flushed: a client has all that was compressed before the rest comes."""
    program, pieces = Bodies(), [NOISE[:5_000], NOISE[5_000:9_000]]
    out = [program.do(CompressPiece(1, coding, len(each), 20_000, is_last=False), each)[1][0] for each in pieces]
    if coding == "zstd":
        found = zstandard.ZstdDecompressor().decompressobj().decompress(b"".join(out))
    else:
        import zlib

        found = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(b"".join(out))
    assert found == b"".join(pieces)


def test_the_program_keeps_nothing_of_bodies_that_ended_or_were_given_up() -> None:
    """Bodies do not mix, whatever their order."""
    program = Bodies()
    first = [program.do(CompressPiece(1, "gzip", 3, 6, is_last=False), b"abc")[1][0]]
    second = [program.do(CompressPiece(2, "gzip", 3, 6, is_last=False), b"ABC")[1][0]]
    first.append(program.do(CompressPiece(1, "gzip", 3, 6, is_last=True), b"def")[1][0])
    second.append(program.do(CompressPiece(2, "gzip", 3, 6, is_last=True), b"DEF")[1][0])
    assert (gzip.decompress(b"".join(first)), gzip.decompress(b"".join(second))) == (b"abcdef", b"ABCDEF")
    program.do(CompressPiece(3, "zstd", 3, 6, is_last=False), b"abc")
    program.do(ForgetBody(3))
    program.do(ForgetBody(4))
    assert program._begun == {}
