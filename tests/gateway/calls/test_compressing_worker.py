"""What the process that compresses large answers does, in this process."""

import gzip
import zlib

import pytest
import zstandard

from actors.gateway.calls.compressing_worker import Bodies, CompressPiece, ForgetBody
from tests.gateway.calls.test_uncompressed_rest import CODINGS, NOISE


@pytest.mark.parametrize("coding", CODINGS)
def test_what_the_program_made_so_far_can_be_read_at_once(coding: str) -> None:
    """Each piece is flushed: a client has all that was compressed before the rest comes."""
    program, pieces = Bodies(), [NOISE[:5_000], NOISE[5_000:9_000]]
    out = [program.do(CompressPiece(1, coding, len(each), 20_000, is_last=False), each)[1][0] for each in pieces]
    if coding == "zstd":
        found = zstandard.ZstdDecompressor().decompressobj().decompress(b"".join(out))
    else:
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
