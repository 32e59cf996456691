"""Servers that are dead, slow, hostile or someone else's; sessions that end."""

import gzip
import json
import re
import socket
from typing import Any

import pytest

from ledger_gateway import transport
from ledger_gateway.client import Gateway
from ledger_gateway.credentials import Session
from ledger_gateway.errors import BadAnswer, Denied, LedgerGatewayError, PaymentNeeded, Unavailable, Unreachable
from ledger_gateway.retries import SENDS, RetryPolicy
from ledger_gateway.transport import checked_url

from .world import Waits, a_gateway, http, raw_server

BUSY = http(503, b'{"error":{"code":"SERVICE_TEMPORARILY_UNAVAILABLE","message":"busy"}}', "Retry-After: 7")
GOOD = http(200, b'{"jsonrpc":"2.0","id":0,"result":5}')


def client(url: str, waits: Waits, credential: Any = "key", **options: Any) -> Gateway:
    return Gateway(url, credential, sleep=waits, jitter=lambda: 0.0, **options)


@pytest.mark.parametrize(
    "url",
    ["", "gateway", "ftp://a", "http://", "http://u:p@a/", "http://a/?api-key=secret", "http://a:99999", "http://[::1"],
)
def test_a_url_that_cannot_be_one_is_refused_without_repeating_it(url: str) -> None:
    """A key in a URL would be logged by everything on the way."""
    with pytest.raises(ValueError, match="the URL must") as refused:
        checked_url(url)
    assert "secret" not in str(refused.value) and checked_url("https://a.example/base/") == "https://a.example/base"


async def test_a_dead_server_is_tried_a_few_times() -> None:
    """Nothing was sent, so trying again is harmless; sends without a key are not tried again even so."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    for method, key, tries in (("getSlot", None, 4), ("sendTransaction", None, 4), ("sendTransaction", "", 1)):
        waits = Waits()
        async with client(url, waits) as gateway:
            with pytest.raises(Unreachable) as failed:
                await gateway.call(method, "x", idempotency_key=key)
        assert not failed.value.was_sent and len(waits.seconds) == tries - 1


@pytest.mark.parametrize("half", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", GOOD[:-4], b"\x00\xff nonsense\r\n\r\n"])
async def test_half_an_answer_is_no_answer_and_is_not_paid_twice(half: bytes) -> None:
    """The first copy may have been charged: a paid call is sent once, a keyed one again."""
    for key, sent in ((None, 1), ("k", 2)):
        async with raw_server(half, GOOD) as (url, heads), client(url, Waits()) as gateway:
            try:
                assert await gateway.call("getSlot", idempotency_key=key) == 5
            except Unreachable as failed:
                assert failed.was_sent and key is None
            assert len(heads) == sent


async def test_a_busy_gateway_is_asked_again_when_it_said_so() -> None:
    waits = Waits()
    async with raw_server(BUSY, BUSY, GOOD) as (url, heads), client(url, waits) as gateway:
        assert await gateway.call("getSlot") == 5
    assert len(heads) == 3 and waits.seconds == [7.0, 14.0]
    async with raw_server(BUSY) as (url, heads), client(url, Waits()) as gateway:
        with pytest.raises(Unavailable):
            await gateway.call("sendTransaction", "x", idempotency_key="")
    assert len(heads) == 1 and b"idempotency-key" not in heads[0].lower()


@pytest.mark.parametrize("method", sorted(SENDS))
async def test_a_send_has_a_key_by_default_and_keeps_it(method: str) -> None:
    """Whether it was refused or its answer was lost: the second request has the key of the first, and each call its
    own; what moves no money has none."""
    async with raw_server(BUSY, b"", GOOD) as (url, heads), client(url, Waits()) as gateway:
        for _ in range(2):
            assert await gateway.call(method, "x") == 5
        await gateway.call("getSlot")
    keys = [re.search(rb"idempotency-key: (\S+)", head, re.IGNORECASE) for head in heads]
    used = [found[1] if found else None for found in keys]
    assert len(used) == 5 and used[0] == used[1] == used[2] != used[3] and used[3] is not None and used[4] is None


@pytest.mark.parametrize("status", [402, 401, 403, 400, 301])
async def test_refusals_that_stay_are_not_repeated(status: int) -> None:
    """A server that answers 402 for ever costs one request; a redirect takes no credential elsewhere."""
    sent = http(status, b'{"error":{"code":"X","message":"no"}}', "Retry-After: 1", "Location: http://127.0.0.1:9/")
    async with raw_server(sent) as (url, heads), client(url, Waits(), retry=RetryPolicy(attempts_max=1)) as gateway:
        with pytest.raises(PaymentNeeded if status == 402 else LedgerGatewayError):
            await gateway.call("getSlot")
        assert len(heads) == 1


async def test_an_endless_answer_and_a_bomb_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1 << 20)
    good = b'{"jsonrpc":"2.0","id":0,"result":1}'
    twice = gzip.compress(gzip.compress(bytes(8 << 20)))  # A few kilobytes, which one read would make megabytes.
    for sent, fault in (
        (http(200, bytes(2 << 20)), "larger"),
        (http(200, twice, "Content-Encoding: gzip, gzip"), "compressed"),
        (http(200, gzip.compress(good), "Content-Encoding: gzip"), "compressed"),
    ):
        async with raw_server(sent) as (url, _), client(url, Waits()) as gateway:
            with pytest.raises(BadAnswer, match=fault):
                await gateway.call("getSlot")
    async with raw_server(http(200, good, "Content-Encoding: identity")) as (url, _), client(url, Waits()) as gateway:
        assert await gateway.call("getSlot") == 1


async def test_a_silent_server_ends_by_the_clients_own_time() -> None:
    async with raw_server(b"HTTP/1.1 200 OK\r\n", then_close=False) as (url, heads):
        async with client(url, Waits(), timeout_seconds=0.2) as gateway:
            with pytest.raises(Unreachable):
                await gateway.call("getSlot")
        assert len(heads) == 1


async def test_a_session_signs_in_once_and_again_when_it_has_ended() -> None:
    """Many calls, one challenge; a token that was revoked elsewhere is replaced, unseen by the caller."""
    async with a_gateway() as served:
        wallet = await served.wallet(100)
        session = Session(wallet)
        async with served.gateway(session) as gateway:
            await gateway.call("getSlot")
            first = session.token
            await gateway.call("getSlot")
            assert session.token == first
            await served.world.http.post("/auth/logout", headers={"authorization": f"Bearer {first}"})
            await gateway.call("getSlot")
            assert session.token not in (None, first)
            served.world.clock.advance(3_700)
            await gateway.account()
            await gateway.sign_out()
            assert session.token is None


async def test_a_revoked_session_does_not_repeat_a_send() -> None:
    """Never a second copy of a send without its key, whatever the answer was; the next call signs in again."""
    async with a_gateway() as served:
        session = Session(await served.wallet(100))
        async with served.gateway(session) as gateway:
            await gateway.account()
            await served.world.http.post("/auth/logout", headers={"authorization": f"Bearer {session.token}"})
            with pytest.raises(Denied):
                await gateway.call("sendTransaction", "x", idempotency_key="")
            assert session.token is None
            assert (await gateway.account()).balance == 100


async def test_only_a_challenge_is_signed() -> None:
    """A hostile server gets no signature over bytes of its choice, such as a transaction's."""
    sent = http(200, json.dumps({"challenge": "transfer everything", "expires_in": 300}).encode())
    from ledger_gateway.credentials import Wallet

    async with raw_server(sent) as (url, heads), client(url, Waits(), Session(Wallet.generate())) as gateway:
        with pytest.raises(BadAnswer):
            await gateway.account()
        assert len(heads) == 1 and b"signature" not in heads[0]
