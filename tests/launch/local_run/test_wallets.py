"""Guards the local run's own keys: made once, kept closed, the same ever after."""

import stat
from pathlib import Path

import base58
from nacl.signing import VerifyKey
from solders.keypair import Keypair

from actors.launch.local_run import wallets


def test_secrets_are_made_once_and_readable_by_the_owner_only(tmp_path: Path) -> None:
    """Rule: a second start keeps accounts, so the wallets behind them stay the same; nobody else may read them."""
    first = wallets.load_or_make(tmp_path)
    assert wallets.load_or_make(tmp_path) == first
    assert stat.S_IMODE((tmp_path / "local.json").stat().st_mode) == 0o600
    assert len({first.deposit.pubkey, first.sponsor.pubkey, first.demo.pubkey}) == 3, "each has its own purpose"


def test_the_demo_key_is_kept(tmp_path: Path) -> None:
    """Rule: the service stores a hash, so the launcher keeps the demo's key to print it at every start."""
    assert wallets.load_or_make(tmp_path).demo_api_key is None
    wallets.keep_demo_api_key(tmp_path, "srpc_live_x")
    assert wallets.load_or_make(tmp_path).demo_api_key == "srpc_live_x"


def test_the_secret_key_is_what_solana_tools_import() -> None:
    """Rule: `secret_key` of the ready file is base58 of 64 bytes, seed then public key."""
    wallet = wallets.Wallet(bytes(range(32)))
    keypair = Keypair.from_base58_string(wallet.secret_key)
    assert str(keypair.pubkey()) == wallet.pubkey
    VerifyKey(base58.b58decode(wallet.pubkey)).verify(b"text", base58.b58decode(wallet.sign(b"text")))
