"""The per-request wallet signature: what is signed, when, and over which path."""

import dataclasses
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import WalletProof
from actors.errors import Err, Refusal
from actors.identity.wallet import WalletHeaders, is_plain_path, signing_message, verify_wallet

from .wallets import NOW, wallet


def signed(**changes: str | bytes) -> WalletHeaders:
    sent = wallet().headers(**changes)  # type: ignore[arg-type]
    return WalletHeaders(sent[b"x-pubkey"], sent[b"x-signature"], sent[b"x-timestamp"], sent[b"x-nonce"])


def verdict(
    headers: WalletHeaders, path: bytes = b"/rpc", body: bytes = b"{}", now: int = NOW
) -> WalletProof | Refusal:
    return verify_wallet(headers, "POST", path, body, now)


def assert_failed(result: WalletProof | Refusal) -> None:
    assert isinstance(result, Refusal)
    assert result.err is Err.AUTH_FAILED
    assert result.detail


def test_the_message_is_the_interfaces() -> None:
    """Interface: ledger-svc:v2:{METHOD}:{PATH}:{TIMESTAMP}:{NONCE}:{BODY_HASH}, the hash empty for GET."""
    digest = hashlib.sha256(b"{}").hexdigest()
    assert signing_message("POST", b"/rpc", b"17", b"n", b"{}") == f"ledger-svc:v2:POST:/rpc:17:n:{digest}".encode()
    assert signing_message("GET", b"/account/info", b"17", b"n", b"") == b"ledger-svc:v2:GET:/account/info:17:n:"


def test_a_good_signature_proves_its_wallet() -> None:
    assert verdict(signed()) == WalletProof(wallet().pubkey, "n-1", NOW)
    get = verify_wallet(signed(method="GET", path="/account/info"), "GET", b"/account/info", b"", NOW)
    assert isinstance(get, WalletProof)


@given(body=st.binary(max_size=2_000), nonce=st.text("abcXYZ019-_:.,", min_size=1, max_size=128))
def test_any_body_and_nonce_that_were_signed_are_good(body: bytes, nonce: str) -> None:
    """Threat 7: the hash is over the raw bytes, whatever they are."""
    assert isinstance(verdict(signed(body=body, nonce=nonce), body=body), WalletProof)


@pytest.mark.parametrize("offset", [-60, -59, 0, 59, 60])
@pytest.mark.threat(3)
def test_a_time_inside_the_window_is_good(offset: int) -> None:
    """Exactly 60 seconds off, either side, is accepted."""
    assert isinstance(verdict(signed(timestamp=str(NOW + offset))), WalletProof)


@pytest.mark.parametrize(
    "timestamp",
    [
        str(NOW - 61),
        str(NOW + 61),
        str(-NOW),
        str(10**18),
        f"{NOW}.0",
        f"{NOW}e0",
        "1e18",
        "NaN",
        "Infinity",
        f"+{NOW}",
        f"-{NOW}",
        f" {NOW}",
        f"{NOW} ",
        f"{NOW}000",
        "1_700_000_000",
        "0x6553f100",
        "٠١٢٣٤٥٦٧٨٩",
        "１７００００００００",
        "",
        "9" * 10_000,
    ],
)
@pytest.mark.threat(3)
def test_any_other_time_is_refused(timestamp: str) -> None:
    """61 seconds off, negative, 1e18, NaN, a leading +, digits of other scripts: AUTH_FAILED, though truly signed."""
    assert_failed(verdict(signed(timestamp=timestamp)))


@pytest.mark.parametrize("nonce", ["", "x" * 129, "a b", "a/b", "é", "a\n", "a\x00", "%41", "x" * 1_000_000])
def test_a_nonce_of_another_form_is_refused(nonce: str) -> None:
    """Interface: 1 to 128 characters from letters, digits and -_:.,"""
    assert_failed(verdict(signed(nonce=nonce)))


@pytest.mark.parametrize("missing", ["signature", "timestamp", "nonce"])
def test_all_four_headers_are_required(missing: str) -> None:
    refusal = verdict(dataclasses.replace(signed(), **{missing: None}))
    assert_failed(refusal)
    assert isinstance(refusal, Refusal)
    assert missing in refusal.detail.lower()


@pytest.mark.parametrize(
    "sent",
    [b"/rpc/", b"//rpc", b"/%72pc", b"/RPC", b"/./rpc", b"/x/../rpc", b"http://host/rpc", b"/rpc?a=1", b"/rpc;a", b""],
)
@pytest.mark.threat(6)
def test_a_signature_of_one_path_is_good_for_no_other(sent: bytes) -> None:
    assert_failed(verdict(signed(path="/rpc"), path=sent))


@pytest.mark.parametrize(
    "path", ["//rpc", "/%2e%2e/rpc", "/../rpc", "/./rpc", "http://host/rpc", "/rpc?a=1", "/a:1", "rpc", "/é"]
)
@pytest.mark.threat(6)
def test_an_ambiguous_path_is_refused_though_signed(path: str) -> None:
    """What a middle box may normalise is refused, even when the client signed exactly what arrived."""
    assert not is_plain_path(path.encode())
    assert_failed(verdict(signed(path=path), path=path.encode()))


@pytest.mark.threat(6)
def test_a_plain_path_is_verified_as_sent() -> None:
    """A trailing slash and capitals are other paths, not other spellings: good when signed, and routed as they are."""
    for path in ("/", "/rpc", "/rpc/", "/Rpc", "/webhooks/wh_1.a~b/rotate-secret"):
        assert isinstance(verdict(signed(path=path), path=path.encode()), WalletProof)


@pytest.mark.threat(5)
def test_malformed_keys_and_signatures_are_refused() -> None:
    """63 and 65 bytes, another alphabet, the zero key, 10 MB: AUTH_FAILED, never an exception."""
    good = signed()
    assert good.signature is not None
    for pubkey in (
        b"",
        b"1" * 32,
        b"0" * 44,
        b"l" * 43,
        good.pubkey[:-1],
        good.pubkey + b"1",
        b"\xff" * 40,
        b"z" * 10_000_000,
    ):
        assert_failed(verdict(dataclasses.replace(good, pubkey=pubkey)))
    for signature in (b"", good.signature[:-1], good.signature + b"1", b"1" * 64, b"\xff" * 87, b"z" * 10_000_000):
        assert_failed(verdict(dataclasses.replace(good, signature=signature)))


def test_any_part_of_the_message_changed_is_refused() -> None:
    good = signed()
    assert_failed(verify_wallet(good, "PUT", b"/rpc", b"{}", NOW))
    assert_failed(verdict(good, path=b"/"))
    assert_failed(verdict(good, body=b"[]"))
    assert_failed(verdict(dataclasses.replace(good, nonce=b"n-2")))
    assert_failed(verdict(dataclasses.replace(good, timestamp=str(NOW + 1).encode())))
    assert_failed(verdict(dataclasses.replace(good, pubkey=wallet(2).pubkey_text.encode())))


def test_the_time_is_checked_before_the_signature() -> None:
    """Cheap checks first: a late request with a bad signature is told about its time."""
    result = verdict(dataclasses.replace(signed(timestamp=str(NOW - 61)), signature=b"1" * 64))
    assert isinstance(result, Refusal)
    assert "X-Timestamp" in result.detail
    assert str(NOW) in result.detail


def test_the_window_is_configurable() -> None:
    headers = signed(timestamp=str(NOW - 5))
    assert isinstance(verify_wallet(headers, "POST", b"/rpc", b"{}", NOW, window_seconds=5), WalletProof)
    assert_failed(verify_wallet(headers, "POST", b"/rpc", b"{}", NOW, window_seconds=4))
