"""Keys and tokens: forms, routing, hashes, and what logs may keep of them."""

import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from actors.identity import keys
from actors.telemetry.logs import redact
from actors.units import routing_bytes

PUBKEYS = st.binary(min_size=32, max_size=32)
RANDOMNESS = st.binary(min_size=24, max_size=24)


@given(pubkey=PUBKEYS, randomness=RANDOMNESS)
def test_a_new_key_has_the_published_form_and_finds_its_owner(pubkey: bytes, randomness: bytes) -> None:
    """Decisions: srpc_live_ and base64url of 8 routing bytes and 24 random bytes; only its hash is stored."""
    text = keys.new_api_key(pubkey, randomness)
    assert re.fullmatch(r"srpc_live_[A-Za-z0-9_-]{43}", text)
    proof = keys.parse_api_key(text)
    assert proof is not None
    assert proof.routing == routing_bytes(pubkey)
    assert proof.key_hash == keys.key_hash(text) == hashlib.sha256(text.encode()).digest()


@given(pubkey=PUBKEYS, randomness=RANDOMNESS)
def test_a_new_token_has_the_published_form_and_finds_its_owner(pubkey: bytes, randomness: bytes) -> None:
    """Interface: 64 hexadecimal characters; decisions: they start with the routing bytes."""
    text = keys.new_session_token(pubkey, randomness)
    assert re.fullmatch(r"[0-9a-f]{64}", text)
    proof = keys.parse_session_token_bytes(text.encode())
    assert proof is not None
    assert proof.routing == routing_bytes(pubkey)
    assert proof.token_hash == keys.token_hash(text)


def test_a_legacy_key_routes_by_its_first_eight_bytes() -> None:
    """Interface: legacy 64-character hexadecimal keys stay good."""
    proof = keys.parse_api_key("0123456789abcdef" + "5a" * 24)
    assert proof is not None
    assert proof.routing == bytes.fromhex("0123456789abcdef")


@given(text=st.text(max_size=80))
def test_any_text_is_judged_without_an_exception(text: str) -> None:
    for proof in (keys.parse_api_key(text), keys.parse_session_token_bytes(text.encode())):
        assert proof is None or len(proof.routing) == 8


def test_other_forms_are_no_keys() -> None:
    """Wrong alphabet, wrong length, padding, spaces inside: none is decoded into something else."""
    good = keys.new_api_key(b"\x07" * 32, b"\xfb\xff" * 12)
    assert "-" in good or "_" in good.removeprefix(keys.KEY_PREFIX)
    for bad in (
        "",
        keys.KEY_PREFIX,
        good[:-1],
        good + "A",
        good + "=",
        good[:-1] + "=",
        good[:-1] + "+",
        good[:-1] + "/",
        good[:-1] + "é",
        " " + good[1:],
        good.upper(),
        "srpc_test_" + good.removeprefix(keys.KEY_PREFIX),
        "ab " * 21 + "a",
        "0x" + "5" * 62,
        "٣" * 64,
        "a" * 63,
        "a" * 65,
    ):
        assert keys.parse_api_key(bad) is None, bad
    assert keys.parse_session_token_bytes(b"ab " * 21 + b"a") is None


def test_a_huge_text_is_refused_by_its_length() -> None:
    """Hostile input 5: 10 MB in a header costs nothing."""
    assert keys.parse_api_key("a" * 10_000_000) is None
    assert keys.parse_api_key_bytes(b"a" * 10_000_000) is None
    assert keys.parse_session_token_bytes(b"a" * 10_000_000) is None


@given(pubkey=PUBKEYS, randomness=RANDOMNESS, other=RANDOMNESS)
def test_the_shown_prefix_tells_keys_apart_and_is_no_key(pubkey: bytes, randomness: bytes, other: bytes) -> None:
    """The key's prefix goes into lifecycle events: at least 160 of its 192 random bits stay hidden."""
    text = keys.new_api_key(pubkey, randomness)
    prefix = keys.key_prefix(text)
    assert text.startswith(prefix)
    assert (len(text) - len(prefix)) * 6 >= 160
    assert keys.parse_api_key(prefix) is None
    if randomness[:3] != other[:3]:
        assert (prefix == keys.key_prefix(keys.new_api_key(pubkey, other))) == (randomness[:3] == other[:3])
    assert keys.key_prefix("ab" * 32) == "ab" * 10


@given(
    pubkey=PUBKEYS,
    randomness=RANDOMNESS,
    frame=st.sampled_from(
        [
            "GET /rpc?api-key={} HTTP/1.1",
            "https://host/?a=1&api-key={}&b=2",
            "https://host/?API_KEY={}#x",
            "Referer: https://host/rpc?apikey={}",
            "{{'x-api-key': '{}'}}",
            "(b'x-api-key', b'{}')",
            "authorization: Bearer {}",
            "Sec-WebSocket-Protocol: auth.{}, solana-rpc",
            "unknown key {}!",
            "{}",
        ]
    ),
    legacy=st.booleans(),
)
def test_no_key_survives_redaction(pubkey: bytes, randomness: bytes, frame: str, legacy: bool) -> None:
    """Hostile input 9: a key in a URL is redacted in every log, metric and error."""
    secret = keys.new_session_token(pubkey, randomness) if legacy else keys.new_api_key(pubkey, randomness)
    redacted = redact(frame.format(secret))
    assert "[redacted]" in redacted
    assert secret not in redacted
    assert secret[-12:] not in redacted
    assert redact(redacted).count("[redacted]") >= 1


def test_redaction_takes_escaped_and_malformed_keys_too() -> None:
    """Hostile input 9: what was meant as a key is one, whatever it looks like; the rest of the URL stays."""
    assert redact("/rpc?api-key=my%20secret&x=1") == "/rpc?api-key=[redacted]&x=1"
    assert redact("/rpc?x=1&api-key=hunter2") == "/rpc?x=1&api-key=[redacted]"
    assert "TOPSECRET" not in redact("/?q=srpc%5Flive%5FTOPSECRET")
    assert "hunter2" not in redact("Authorization: bearer hunter2")
    assert redact("secret key " + "ab" * 64) == "secret key [redacted]"


def test_redaction_leaves_ordinary_text_alone() -> None:
    """Public keys and signatures are needed in logs."""
    for text in (
        "GET /account/info from 127.0.0.1",
        "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
        "method=getBalance credits=1 operation=00112233445566778899aabbccddeeff",
    ):
        assert redact(text) == text
