"""`wallet` and `key`, from nothing to a first call."""

import stat
from collections.abc import Callable
from pathlib import Path

from ledger_gateway.credentials import Wallet

from .conftest import Done, Site


def test_from_nothing_to_a_first_call(cli: Callable[..., Done], site: Site, tmp_path: Path) -> None:
    """A new user: wallet, key, balance; the key is saved and not printed, and nothing is overwritten."""
    made = cli("wallet", "new", "--json").json
    path = Path(made["keypair"])
    assert Wallet.from_file(path).pubkey == made["pubkey"] and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cli("wallet", "new").code == 1 and Wallet.from_file(path).pubkey == made["pubkey"]
    assert cli("wallet", "show", "--json").json["pubkey"] == made["pubkey"]
    assert cli("wallet", "show", "--pubkey").out == f"{made['pubkey']}\n"
    key = cli("key", "new")
    assert "deposit AMOUNT" in key.err  # A first call without credits would be a 402.
    saved = tmp_path / "profile.json"
    assert key.code == 0 and "srpc_live_" not in key.out + key.err and stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert "srpc_live_" in saved.read_text()
    account = cli("balance", "--json").json
    assert (account["pubkey"], account["balance"]) == (made["pubkey"], 0)
    assert cli("key", "forget").code == 0 and cli("key", "forget").code == 1
    shown = cli("key", "new", "--show", "--json").json["api_key"]
    assert cli("balance", "--json", key=shown).json["pubkey"] == made["pubkey"]


def test_a_key_needs_the_wallet(cli: Callable[..., Done], site: Site) -> None:
    """An API key cannot make another one, and the error says what can."""
    done = cli("key", "new", key=site.key(5))
    assert done.code == 1 and "--keypair" in done.err
