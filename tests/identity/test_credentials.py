"""Which credential counts (interface, "Priority and failure"); keys and tokens: forms, routing, hashes, and what logs
may keep of them."""

import hashlib
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import KeyProof, Proof, SessionProof, WalletProof
from actors.config import IdentityConfig
from actors.errors import Err, Refusal
from actors.identity.credentials import (
    KEY_PREFIX,
    Accept,
    key_hash,
    key_prefix,
    new_api_key,
    new_session_token,
    parse_api_key,
    parse_api_key_bytes,
    parse_session_token_bytes,
    prove,
    token_hash,
    uses_url_key,
)
from actors.telemetry.logs import redact
from actors.units import routing_bytes

from .wallets import NOW, wallet

CONFIG = IdentityConfig()
KEY = new_api_key(wallet().pubkey, b"k" * 24)
TOKEN = new_session_token(wallet().pubkey, b"t" * 24)
API_KEY = (b"x-api-key", KEY.encode())
BAD_API_KEY = (b"x-api-key", b"srpc_live_nonsense")
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())
BAD_BEARER = (b"authorization", b"Bearer nonsense")
SIGNED = list(wallet().headers().items())
BADLY_SIGNED = [*list(wallet(2).headers().items())[:1], *SIGNED[1:]]
URL_KEY = b"api-key=" + KEY.encode()
PUBKEYS = st.binary(min_size=32, max_size=32)
RANDOMNESS = st.binary(min_size=24, max_size=24)
ORDINARY = [(b"host", b"example"), (b"user-agent", b"x"), (b"content-type", b"application/json")]


def proof_of(
    headers: list[tuple[bytes, bytes]], query: bytes = b"", accept: Accept = Accept.ANY
) -> Proof | Refusal | None:
    return prove(ORDINARY + headers, query, "POST", b"/rpc", b"{}", NOW, CONFIG, accept)


def assert_failed(result: Proof | Refusal | None) -> None:
    assert isinstance(result, Refusal)
    assert result.err is Err.AUTH_FAILED
    assert KEY not in result.detail
    assert TOKEN not in result.detail


def test_a_bad_key_is_told_the_forms_of_a_key() -> None:
    """Interface, "API key": the two formats, by name."""
    for result in (proof_of([BAD_API_KEY]), proof_of([], b"api-key=nonsense")):
        assert_failed(result)
        assert isinstance(result, Refusal) and "begins with srpc_live_" in result.detail


def test_no_credentials_is_not_a_failure() -> None:
    """Interface: no credentials at all is 402 with terms, so that a payment client can onboard."""
    assert proof_of([]) is None
    assert proof_of([], b"limit=5&offset=1") is None
    assert proof_of([(b"x-timestamp", b"1")]) is None


def test_each_kind_alone() -> None:
    """Interface, "Priority and failure": a key in header or URL, a signature and a bearer token each suffice alone."""
    assert isinstance(proof_of([API_KEY]), KeyProof)
    assert isinstance(proof_of([], URL_KEY), KeyProof)
    assert isinstance(proof_of(SIGNED), WalletProof)
    assert isinstance(proof_of([BEARER]), SessionProof)


@pytest.mark.threat(8)
def test_the_order_is_key_wallet_bearer() -> None:
    """API key, bad signature and valid bearer together: the first kind that is present decides, whatever follows."""
    assert isinstance(proof_of([BEARER, *BADLY_SIGNED, API_KEY]), KeyProof)
    assert isinstance(proof_of([BEARER, *BADLY_SIGNED], URL_KEY), KeyProof)
    assert isinstance(proof_of([BAD_BEARER, *SIGNED]), WalletProof)


@pytest.mark.threat(8)
def test_a_bad_higher_credential_never_falls_through() -> None:
    for order in itertools.permutations([BAD_API_KEY, BEARER, *SIGNED[:1]]):
        assert_failed(proof_of([*order, *SIGNED[1:]]))
    assert_failed(proof_of([BEARER, *BADLY_SIGNED]))
    assert_failed(proof_of([BEARER, *SIGNED], b"api-key=nonsense"))
    assert_failed(proof_of([BAD_API_KEY], URL_KEY))
    assert_failed(proof_of([BEARER, *SIGNED[:1]]))
    assert_failed(proof_of([(b"x-api-key", b"")], URL_KEY))


def test_the_key_header_is_checked_before_the_url() -> None:
    """Interface: the header is checked first; the parameter is then not looked at."""
    other = new_api_key(wallet(2).pubkey, b"o" * 24)
    assert proof_of([API_KEY], b"api-key=" + other.encode()) == proof_of([API_KEY])
    assert proof_of([API_KEY], b"api-key=nonsense") == proof_of([API_KEY])


@pytest.mark.parametrize("header", [API_KEY, BEARER, *SIGNED], ids=lambda header: header[0].decode())
def test_a_credential_header_sent_twice_is_refused(header: tuple[bytes, bytes]) -> None:
    """Two readers could pick different ones; equal values make no difference."""
    assert_failed(proof_of([API_KEY, *SIGNED, BEARER, header]))
    assert_failed(proof_of([header, header]))


def test_the_url_parameter() -> None:
    """One api-key parameter, percent-decoded, is the header; repeated, empty or huge fails; no other name counts."""
    expected = proof_of([API_KEY])
    assert proof_of([], b"a=1&" + URL_KEY + b"&b=2") == expected
    assert proof_of([], URL_KEY.replace(b"_", b"%5F")) == expected
    assert_failed(proof_of([], URL_KEY + b"&" + URL_KEY))
    assert_failed(proof_of([], b"api-key="))
    assert_failed(proof_of([], b"api-key"))
    assert_failed(proof_of([], b"api-key=" + b"%41" * 1_000_000))
    assert proof_of([], b"x-api-key=" + KEY.encode()) is None
    assert proof_of([], b"API-KEY=" + KEY.encode()) is None
    assert proof_of([], b"api%2Dkey=" + KEY.encode()) is None


@pytest.mark.threat(9)
def test_a_key_in_the_url_is_noticed() -> None:
    """So that the reply can carry a deprecation warning; only when it is the key that counts."""
    assert uses_url_key(ORDINARY, URL_KEY)
    assert uses_url_key(ORDINARY, b"a=1&api-key=nonsense")
    assert not uses_url_key([*ORDINARY, API_KEY], URL_KEY)
    assert not uses_url_key(ORDINARY, b"")
    assert not uses_url_key(ORDINARY, b"x-api-key=1&y=api-key")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic dXNlcjpwYXNz",
        TOKEN.encode(),
        b"Bearer" + TOKEN.encode(),
        b"Bearer " + TOKEN.encode() + b", Bearer x",
        b"Bearer " + TOKEN.encode()[:-1],
        b"Bearer " + KEY.encode(),
        b"Bearer " + b"a" * 10_000_000,
    ],
)
def test_other_authorization_values_are_refused(value: bytes) -> None:
    """Threat 5 among them: 10 MB costs no more than a good one."""
    assert_failed(proof_of([(b"authorization", value)]))


def test_the_scheme_is_case_insensitive() -> None:
    """RFC 9110, 11.1."""
    assert proof_of([(b"authorization", b"bearer  " + TOKEN.encode())]) == proof_of([BEARER])


def test_a_signature_without_its_key_is_told_so() -> None:
    assert_failed(proof_of([header for header in SIGNED if header[0] != b"x-pubkey"]))
    without_key = [header for header in SIGNED if header[0] != b"x-pubkey"]
    assert isinstance(proof_of([*without_key, BEARER]), SessionProof)


def test_only_the_wallet_may_replace_the_key() -> None:
    """Interface: POST /account/api-key requires a wallet signature; other kinds beside it are passed over."""
    assert isinstance(proof_of(SIGNED, accept=Accept.WALLET), WalletProof)
    assert isinstance(proof_of([API_KEY, BAD_BEARER, *SIGNED], URL_KEY, Accept.WALLET), WalletProof)
    assert_failed(proof_of([API_KEY], accept=Accept.WALLET))
    assert_failed(proof_of([BEARER], accept=Accept.WALLET))
    assert_failed(proof_of([], URL_KEY, Accept.WALLET))
    assert_failed(proof_of([BEARER, API_KEY, *BADLY_SIGNED], accept=Accept.WALLET))
    assert proof_of([], accept=Accept.WALLET) is None


def test_logout_takes_the_bearer_token_alone() -> None:
    """Interface: /auth/logout needs the bearer token."""
    assert isinstance(proof_of([BEARER], accept=Accept.SESSION), SessionProof)
    assert isinstance(proof_of([API_KEY, BEARER, *BADLY_SIGNED], accept=Accept.SESSION), SessionProof)
    assert_failed(proof_of([API_KEY], accept=Accept.SESSION))
    assert_failed(proof_of(SIGNED, accept=Accept.SESSION))
    assert_failed(proof_of([BAD_BEARER], accept=Accept.SESSION))
    assert proof_of([], accept=Accept.SESSION) is None


names = st.sampled_from([b"x-api-key", b"x-pubkey", b"x-signature", b"x-timestamp", b"x-nonce", b"authorization", b"a"])


@given(
    headers=st.lists(st.tuples(names, st.binary(max_size=100))),
    query=st.binary(max_size=100),
    accept=st.sampled_from(Accept),
)
@pytest.mark.threat(5)
def test_any_bytes_are_judged_without_an_exception(
    headers: list[tuple[bytes, bytes]], query: bytes, accept: Accept
) -> None:
    """Random bytes are no credential; the form of a legacy key is the one thing chance could meet."""
    assert not isinstance(proof_of(headers, query, accept), WalletProof)


@pytest.mark.threat(2)
def test_a_bad_signature_leaves_no_trace() -> None:
    """Proving is pure: the same nonce is good after any number of bad attempts; the owner alone takes it."""
    for _ in range(3):
        assert_failed(proof_of(BADLY_SIGNED))
    assert proof_of(SIGNED) == proof_of(SIGNED)


@pytest.mark.threat(4, 39)
def test_each_fresh_key_pair_is_checked_at_the_door() -> None:
    """A hundred key pairs: the properly signed prove their own key and nonce, the others reach no owner."""
    for number in range(1, 101):
        good = proof_of(list(wallet(number).headers(nonce=f"n-{number}").items()))
        assert good == WalletProof(wallet(number).pubkey, f"n-{number}", NOW)
        stolen = wallet(number).headers() | {b"x-pubkey": wallet(number + 1).pubkey_text.encode()}
        assert_failed(proof_of(list(stolen.items())))


@given(pubkey=PUBKEYS, randomness=RANDOMNESS)
def test_a_new_key_has_the_published_form_and_finds_its_owner(pubkey: bytes, randomness: bytes) -> None:
    """Decisions: srpc_live_ and base64url of 8 routing bytes and 24 random bytes; only its hash is stored."""
    text = new_api_key(pubkey, randomness)
    assert re.fullmatch(r"srpc_live_[A-Za-z0-9_-]{43}", text)
    proof = parse_api_key(text)
    assert proof is not None
    assert proof.routing == routing_bytes(pubkey)
    assert proof.key_hash == key_hash(text) == hashlib.sha256(text.encode()).digest()


@given(pubkey=PUBKEYS, randomness=RANDOMNESS)
def test_a_new_token_has_the_published_form_and_finds_its_owner(pubkey: bytes, randomness: bytes) -> None:
    """Interface: 64 hexadecimal characters; decisions: they start with the routing bytes."""
    text = new_session_token(pubkey, randomness)
    assert re.fullmatch(r"[0-9a-f]{64}", text)
    proof = parse_session_token_bytes(text.encode())
    assert proof is not None
    assert proof.routing == routing_bytes(pubkey)
    assert proof.token_hash == token_hash(text)


def test_a_legacy_key_routes_by_its_first_eight_bytes() -> None:
    """Interface: legacy 64-character hexadecimal keys stay good."""
    proof = parse_api_key("0123456789abcdef" + "5a" * 24)
    assert proof is not None
    assert proof.routing == bytes.fromhex("0123456789abcdef")


@given(ends=st.lists(st.sampled_from(("session", "key", "a", "-", "_", "=", "é")), max_size=60).map("".join))
def test_the_text_of_one_kind_of_key_is_never_one_of_another(ends: str) -> None:
    """So a hash that was an account's own key is never a named key's (gateway/payments/authentication.py relies on
    it): keys that the service makes are random, a child's text is longer, and an imported key has no prefix."""
    made, legacy = new_api_key(b"p" * 32, b"k" * 24), new_session_token(b"p" * 32, b"k" * 24)
    for text in (made, legacy, KEY_PREFIX + ends, KEY_PREFIX + "A" * 124 + ends, ends):
        proof = parse_api_key(text)
        if proof is not None:
            is_child = len(text) >= len(KEY_PREFIX) + 134
            assert (proof.child == text) is is_child and bool(proof.child) is is_child
            assert is_child or (len(text), text.startswith(KEY_PREFIX)) in ((53, True), (64, False))


@given(text=st.text(max_size=80))
def test_any_text_is_judged_without_an_exception(text: str) -> None:
    for proof in (parse_api_key(text), parse_session_token_bytes(text.encode())):
        assert proof is None or len(proof.routing) == 8


def test_other_forms_are_no_keys() -> None:
    """Wrong alphabet, wrong length, padding, spaces inside: none is decoded into something else."""
    good = new_api_key(b"\x07" * 32, b"\xfb\xff" * 12)
    assert "-" in good or "_" in good.removeprefix(KEY_PREFIX)
    for bad in (
        "",
        KEY_PREFIX,
        good[:-1],
        good + "A",
        good + "=",
        good[:-1] + "=",
        good[:-1] + "+",
        good[:-1] + "/",
        good[:-1] + "é",
        " " + good[1:],
        good.upper(),
        "srpc_test_" + good.removeprefix(KEY_PREFIX),
        "ab " * 21 + "a",
        "0x" + "5" * 62,
        "٣" * 64,
        "a" * 63,
        "a" * 65,
    ):
        assert parse_api_key(bad) is None, bad
    assert parse_session_token_bytes(b"ab " * 21 + b"a") is None


def test_a_huge_text_is_refused_by_its_length() -> None:
    """Threat 5: 10 MB in a header costs nothing."""
    assert parse_api_key("a" * 10_000_000) is None
    assert parse_api_key_bytes(b"a" * 10_000_000) is None
    assert parse_session_token_bytes(b"a" * 10_000_000) is None


@given(pubkey=PUBKEYS, randomness=RANDOMNESS, other=RANDOMNESS)
def test_the_shown_prefix_tells_keys_apart_and_is_no_key(pubkey: bytes, randomness: bytes, other: bytes) -> None:
    """The key's prefix goes into lifecycle events: at least 160 of its 192 random bits stay hidden."""
    text = new_api_key(pubkey, randomness)
    prefix = key_prefix(text)
    assert text.startswith(prefix)
    assert (len(text) - len(prefix)) * 6 >= 160
    assert parse_api_key(prefix) is None
    if randomness[:3] != other[:3]:
        assert (prefix == key_prefix(new_api_key(pubkey, other))) == (randomness[:3] == other[:3])
    assert key_prefix("ab" * 32) == "ab" * 10


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
    """Threat 9: a key in a URL is redacted in every log, metric and error."""
    secret = new_session_token(pubkey, randomness) if legacy else new_api_key(pubkey, randomness)
    redacted = redact(frame.format(secret))
    assert "[redacted]" in redacted
    assert secret not in redacted
    assert secret[-12:] not in redacted
    assert redact(redacted).count("[redacted]") >= 1


def test_redaction_takes_escaped_and_malformed_keys_too() -> None:
    """Threat 9: what was meant as a key is one, whatever it looks like; the rest of the URL stays."""
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
