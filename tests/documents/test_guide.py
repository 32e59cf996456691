"""The chapters of the documents: everything that a client without an account needs, as it is offered here."""

import re
from dataclasses import replace

import base58
import httpx
import pytest
from nacl.signing import SigningKey

from actors.calls import WalletProof
from actors.config import IdentityConfig
from actors.documents import guide, llms, openapi, reference
from actors.documents.offer import StreamOffer
from actors.identity.credentials import prove
from actors.methods.catalog import METHODS
from actors.methods.prices import STREAMS, SUBSCRIPTIONS

from .service import DEPOSIT, the_offer

OFFER = the_offer()
CHAPTERS = {chapter.name: chapter for chapter in guide.chapters(OFFER)}


def test_the_documents_tell_how_to_stream() -> None:
    """README, "Methods": paths, subscriptions, prices and addresses are in the page, the text and the JSON."""
    page, text, document = reference.page(OFFER), llms.text(OFFER), openapi.document(OFFER)
    for row in SUBSCRIPTIONS:
        for made in (page, text, str(document["x-streams"])):
            assert row.name in made and row.unsubscribe in made, row.name
    for made in (page, text):
        for fact in ("wss://gateway.test/ws", "gateway.test:443", "solana-rpc", "auth.", "x-token", "4002", "1013"):
            assert fact in made, fact
    prices = document["x-streams"]["grpc"]["prices"], document["x-streams"]["websocket"]["prices"]
    assert prices == (dict(STREAMS["grpc"]), [dict(STREAMS["websocket"]), dict(STREAMS["signals"])])
    assert "costs 5 credits, and 10 notifications cost 1; signals cost 5, and 1 for each" in text
    assert "costs 1 credit when its first request is accepted, and 60 when each further 60 seconds begin" in text


def test_the_documents_tell_how_to_open_an_account_and_pay() -> None:
    """Whoever has only the URL can sign, pay and call."""
    for made in (reference.page(OFFER), llms.text(OFFER)):
        assert guide.SIGNED_MESSAGE in made and DEPOSIT["instructions"] in made
        for header in ("X-Pubkey", "X-Signature", "X-Timestamp", "X-Nonce"):
            assert header in made


def test_the_example_makes_a_signature_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interface, "Per-request wallet signature": the program on the page, as it is, with a wallet's key put in."""
    sent: list[tuple[str, bytes, dict[str, str]]] = []

    def post(url: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        sent.append((url, content, headers))
        return httpx.Response(200, json={"api_key": "srpc_live_"})

    monkeypatch.setattr(httpx, "post", post)
    key = SigningKey.generate()
    secret = base58.b58encode(key.encode() + key.verify_key.encode()).decode()
    exec(CHAPTERS["account"].example.replace("<secret key of the wallet, base58>", secret), {})
    ((url, content, headers),) = sent
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    proof = prove(raw, b"", "POST", b"/account/api-key", content, int(headers["X-Timestamp"]), IdentityConfig())
    assert url == "https://gateway.test/account/api-key" and isinstance(proof, WalletProof)


def test_the_table_of_monotonic_reads_has_every_method_once() -> None:
    """Decisions, "Monotonic reads": a reader finds what is kept of the method that he calls."""
    ((_, rows),) = CHAPTERS["consistency"].tables
    named = [name.strip("`") for _, names in rows for name in names.split(", ")]
    assert sorted(named) == sorted(name for name, row in METHODS.items() if row.callable and name != "sendBundle")


def test_what_is_not_offered_has_no_chapter() -> None:
    """A run without a stream source promises no streams."""
    without = replace(OFFER, streams=StreamOffer())
    assert [chapter.name for chapter in guide.chapters(without)] == ["account", "consistency"]
    assert openapi.document(without)["x-streams"] == {}
    plain = replace(OFFER, public_url="http://127.0.0.1:8080")
    assert guide.websocket_url(plain) == "ws://127.0.0.1:8080/ws"


def test_code_in_a_text_is_closed() -> None:
    """Backticks come in pairs, so that the page shows no stray one."""
    for chapter in CHAPTERS.values():
        for text in (*chapter.points, *(cell for _, rows in chapter.tables for row in rows for cell in row)):
            assert text.count("`") % 2 == 0, text
    assert not re.search(r"`", reference.page(OFFER).replace(guide._SOCKET_EXAMPLE, ""))
