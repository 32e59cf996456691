"""Compressed answers: the bytes, the rooms, and whatever is never compressed."""

import asyncio
import gzip
import os
import threading
from typing import Any

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.calls import compressing
from actors.gateway.calls.compressing import Compressing, may_be_compressed
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import AsgiClient, Request
from tests.gateway.calls.test_large_bodies import until

TEXT = orjson.dumps([{"pubkey": "x" * 30, "lamports": number} for number in range(400)])
MEDIUM = TEXT * 3
LARGE = TEXT * 40  # 900 kB
VAST = TEXT * 80


def request(accepts: bytes = b"gzip", path: bytes = b"/", method: str = "POST") -> Request:
    sent = [(b"accept-encoding", accepts)]
    return Request(method, path, b"", sent, b"", "id", AsgiClient(sent, "1.2.3.4"))


def opened() -> Compressing:
    return Compressing(lambda client: client.peer or "")


def body_of(response: Response) -> bytes:
    return response.body + b"".join(response.parts)


def decoded(response: Response) -> bytes:
    coding = dict(response.headers)[b"content-encoding"]
    whole = body_of(response)
    return gzip.decompress(whole) if coding == b"gzip" else zstandard.ZstdDecompressor().decompress(whole)


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
@pytest.mark.parametrize(
    "made",
    [
        Response(200, TEXT[:9_000]),
        Response(200, MEDIUM),
        Response(200, LARGE),
        Response(200, b"", [], (), (b"{", memoryview(LARGE), b"}")),
    ],
)
async def test_whoever_decodes_it_has_the_bytes_of_before(coding, made):
    """Small or large, whole or in parts; shorter, and named."""
    work, response = opened(), Response(200, made.body, [], (), made.parts)
    whole = body_of(response)
    await work.answer(response, request(coding))
    assert decoded(response) == whole and len(body_of(response)) < len(whole) / 3
    assert [value for name, value in response.headers if name == b"vary"] == [b"accept-encoding"]
    await work.close()


@given(parts=st.lists(st.binary(max_size=200), min_size=1, max_size=5), coding=st.sampled_from((b"gzip", b"zstd")))
def test_any_bytes_in_any_parts_come_back(parts, coding):
    """The coder sees the same bytes, however they are cut."""
    packed = compressing._whole(coding, parts)
    unpacked = gzip.decompress(packed) if coding == b"gzip" else zstandard.ZstdDecompressor().decompress(packed)
    assert unpacked == b"".join(parts)


@pytest.mark.parametrize(
    ("response", "path"),
    [
        (Response(200, b"x" * 1_024), b"/"),
        (Response(200, TEXT, [(b"cache-control", b"no-store")]), b"/"),
        (Response(200, TEXT, [(b"cache-control", b"private, no-store")]), b"/account/info"),
        (Response(200, TEXT, [(b"content-encoding", b"br")]), b"/docs"),
        (Response(200, TEXT, content_type=b"image/x-icon"), b"/favicon.ico"),
        (Response(200, TEXT, content_type=b"text/event-stream"), b"/signals/stream"),
        (Response(200, TEXT), b"/auth/challenge"),
        (Response(200, TEXT), b"/auth/verify"),
        (Response(200, TEXT), b"/account/api-key"),
        (Response(200, TEXT), b"/account/keys/k1/rotate"),
        (Response(200, TEXT), b"/webhooks"),
        (Response(200, TEXT), b"/x402/settle"),
    ],
)
async def test_secrets_streams_and_answers_of_other_sizes_are_left_as_they_are(response, path):
    """The length of compressed text can tell what is in it (CRIME, BREACH); a packet is a packet."""
    before, sent = body_of(response), list(response.headers)
    work = opened()
    await work.answer(response, request(path=path))
    assert (body_of(response), response.headers) == (before, sent)
    assert may_be_compressed(Response(200, TEXT), b"/account/ledger")
    await work.close()


async def test_a_client_that_takes_no_coding_is_told_that_others_get_one():
    """A cache between must not mix the two."""
    work, response = opened(), Response(200, TEXT, [])
    await work.answer(response, request(b"identity"))
    assert (response.body, response.headers) == (TEXT, [(b"vary", b"accept-encoding")])
    await work.close()


async def test_what_does_not_become_shorter_is_sent_as_it_is():
    """Random bytes."""
    for size in (2_000, 20_000, 300_000):
        noise, work = os.urandom(size), opened()
        response = Response(200, noise, [])
        await work.answer(response, request(b"zstd"))
        assert response.body == noise and b"content-encoding" not in dict(response.headers)
        await work.close()


async def test_nobody_works_for_the_body_of_a_head():
    """Its headers are those of the GET, but for a length that nobody knows."""
    work, response = opened(), Response(200, TEXT, [])
    await work.answer(response, request(method="HEAD"))
    assert response.is_head and dict(response.headers)[b"content-encoding"] == b"gzip"
    assert response.body == TEXT and work._small._threads == set()


# --- rooms


class Held:
    """Threads that stand still until they are let go."""

    def __init__(self, work: Compressing) -> None:
        self.go = threading.Event()
        for pool in (work._small, work._large):
            pool.submit(self.go.wait)


async def begun(work: Compressing, body: bytes, owner: str, times: int) -> list["asyncio.Task[Any]"]:
    made = [
        asyncio.create_task(work.compress(Response(200, body, []), b"gzip", owner, lambda: False)) for _ in range(times)
    ]
    await asyncio.sleep(0)
    return made


@pytest.mark.threat(13)
async def test_an_answer_that_finds_no_room_is_sent_as_it_is_at_once():
    """Those up to 256 KiB wait behind 1 MiB at most; of larger ones an owner has two, and all together four."""
    work, fit = opened(), (1 << 20) // len(MEDIUM)
    held = Held(work)
    small = await begun(work, MEDIUM, "a", 100)
    assert sum(task.done() for task in small) == 100 - fit
    large = [await begun(work, LARGE, owner, 3) for owner in "abc"]
    assert [sum(task.done() for task in tasks) for tasks in large] == [1, 1, 3]
    every = [*small, *(task for tasks in large for task in tasks)]
    assert not any(task.result() for task in every if task.done())
    held.go.set()
    assert sum(await asyncio.gather(*every)) == fit + 4
    assert (work._small_bytes, dict(work._jobs)) == (0, {})
    await work.close()


async def test_what_is_quickly_done_needs_no_room():
    """Up to 16 KiB: handing it to a thread would take longer."""
    work = opened()
    held = Held(work)
    (task,) = await begun(work, TEXT[: 16 << 10], "a", 1)
    assert task.done() and task.result()
    held.go.set()
    await work.close()


@pytest.mark.threat(36)
async def test_nobody_works_for_a_client_that_left():
    """Its turn passes, and its room is free."""
    work, response = opened(), Response(200, LARGE, [])
    assert not await work.compress(response, b"gzip", "a", lambda: True)
    assert (response.body, dict(work._jobs)) == (LARGE, {})
    await work.close()


async def test_a_fault_of_the_coder_leaves_the_answer(monkeypatch, caplog):
    """Whatever happens, it stays an answer."""
    work, response = opened(), Response(200, TEXT, [])
    monkeypatch.setattr(compressing, "_whole", lambda *_: 1 / 0)
    await work.answer(response, request())
    assert response.body == TEXT and b"content-encoding" not in dict(response.headers)
    assert "could not be compressed" in caplog.text
    await work.close()


async def test_a_public_document_is_compressed_once(monkeypatch):
    """It is the same for everybody. Its tag becomes a weak one, as the bytes are others."""
    work, turns = opened(), []
    monkeypatch.setattr(compressing, "_whole", lambda *given, real=compressing._whole: turns.append(1) or real(*given))
    for _ in range(3):
        response = Response(200, TEXT, [(b"etag", b'"t"')], is_public=True)
        await work.answer(response, request())
        assert decoded(response) == TEXT and dict(response.headers)[b"etag"] == b'W/"t"'
    assert len(turns) == 1
    await work.close()


async def test_documents_that_are_kept_are_bounded(monkeypatch):
    """The oldest is forgotten."""
    monkeypatch.setattr(compressing, "_KEPT_BYTES_MAX", 10_000)
    work = opened()
    for number in range(20):
        work._keep((b"%d" % number, b"gzip"), bytes(1_000))
    work._keep((b"vast", b"gzip"), bytes(9_000))
    assert [tag for tag, _ in work._kept] == [b"%d" % number for number in range(10, 20)]
    assert work._kept_bytes == 10_000


# --- above 1 MiB: large_bodies.py


async def test_a_body_above_a_mebibyte_is_another_processes_work():
    """Of a whole body, such as of a list, as of one in parts: no length, a weak tag, and what it held is let go. The
    first one starts the process, and neither a HEAD nor a secret asks for anything."""
    work = opened()
    first = Response(200, VAST, [])
    await work.answer(first, request(b"zstd"))
    assert (first.body, first.made, first.headers) == (VAST, None, [(b"vary", b"accept-encoding")])
    await until(lambda: work.large_bodies._starting is None)
    made = Response(200, VAST, [(b"etag", b'"t"')], kept=(object(),))
    await work.answer(made, request(b"zstd"))
    assert made.made is not None and (made.body, made.parts, made.kept) == (b"", (), ())
    assert dict(made.headers) == {
        b"etag": b'W/"t"',
        b"vary": b"accept-encoding",
        b"content-encoding": b"zstd",
        b"transfer-encoding": b"chunked",
    }
    whole = b"".join([piece async for piece, _ in made.made.pieces()])
    assert zstandard.ZstdDecompressor().decompressobj().decompress(whole) == VAST
    head, secret, old = Response(200, VAST, []), Response(200, VAST, []), Response(200, VAST, [])
    await work.answer(head, request(method="HEAD"))
    assert head.is_head and head.made is None and head.headers[-1] == (b"content-encoding", b"gzip")
    await work.answer(secret, request(path=b"/account/keys"))
    asked = request()
    asked.client.takes_chunks = False
    await work.answer(old, asked)
    assert (secret.made, secret.headers, old.made, old.headers) == (None, [], None, [(b"vary", b"accept-encoding")])
    await until(lambda: work.large_bodies.taken == 0)
    await work.close()
