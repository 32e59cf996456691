"""Credentials: files as solana-keygen writes them, signatures, and secrets that are shown nowhere."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.identity.signatures import parse_signature
from ledger_gateway.credentials import ApiKey, BadCredential, Session, Wallet, credential_of, headers_of


def test_a_key_pair_file_is_solanas_and_private(tmp_path: Path) -> None:
    """Another tool reads the file; nobody else on the machine does; it is never overwritten."""
    wallet, path = Wallet.generate(), tmp_path / "keys" / "id.json"
    wallet.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(Keypair.from_json(path.read_text()).pubkey()) == wallet.pubkey == Wallet.from_file(path).pubkey
    with pytest.raises(FileExistsError):
        Wallet.generate().save(path)
    assert Wallet.from_file(path).pubkey == wallet.pubkey


def test_a_wallet_is_read_from_text_and_from_either_length() -> None:
    """Interface: a 32-byte seed or a 64-byte expanded key."""
    keypair = Keypair()
    for wallet in (Wallet.from_text(str(keypair)), Wallet(bytes(keypair)), Wallet(bytes(keypair)[:32])):
        assert wallet.pubkey == str(keypair.pubkey()) and wallet.secret_bytes == bytes(keypair)
        assert parse_signature(wallet.sign(b"text")) == bytes(keypair.sign_message(b"text"))


@given(text=st.text() | st.lists(st.integers() | st.text()).map(json.dumps) | st.just("[" * 100_000))
def test_bad_files_are_refused_without_their_content(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is in a damaged key file may be a secret all the same."""
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(BadCredential) as refused:
        Wallet.from_file(path)
    assert (
        str(refused.value).removeprefix(f"{path}: ").startswith(("wanted a JSON list", "a secret key has", "the two"))
    )


def test_secrets_are_in_no_repr() -> None:
    wallet, key = Wallet.generate(), ApiKey("srpc_live_secret")
    session = Session(wallet)
    session.token = "0" * 64
    shown = repr([wallet, key, session, credential_of("srpc_live_other")])
    assert "secret" not in shown and "other" not in shown and "0000" not in shown and wallet.pubkey in shown


@pytest.mark.parametrize("text", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_could_break_a_header_is_refused(text: str) -> None:
    with pytest.raises(BadCredential):
        ApiKey(text)


def test_every_attempt_has_its_own_nonce() -> None:
    """A nonce is good once, also after a 503."""
    wallet = Wallet.generate()
    signed = [headers_of(wallet, "GET", "/account/info", b"", lambda: 1_000.9) for _ in range(2)]
    assert signed[0]["X-Nonce"] != signed[1]["X-Nonce"] and signed[0]["X-Timestamp"] == "1000"
    assert headers_of(None, "GET", "/", b"") == headers_of(Session(wallet), "GET", "/", b"") == {}
