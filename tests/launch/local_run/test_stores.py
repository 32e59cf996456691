"""Guards which settings a run completes by itself, and which a cluster must be given."""

from pathlib import Path

import pytest

from actors.config import Config, ConfigError
from actors.config_loader import load
from actors.launch.local_run import stores, wallets


def test_a_local_run_completes_what_is_not_configured(tmp_path: Path) -> None:
    """Rule: one command runs the whole product; it presents itself as devnet on the embedded chain."""
    secrets = wallets.load_or_make(tmp_path)
    filled = stores.fill_local(Config(), secrets)
    assert filled.payments.network == "devnet"
    assert filled.payments.deposit_wallet == secrets.deposit.pubkey
    assert filled.storage.cluster_secret is not None
    assert filled.trades.sol_usd_micro == 150_000_000, "the embedded chain's SOL has no market"
    assert filled.payments.sponsor_pubkey == secrets.sponsor.pubkey and filled.payments.sponsor_key is not None


def test_a_real_node_means_mainnet_unless_said_otherwise(tmp_path: Path) -> None:
    """Rule (decisions, "Neutral words of the interface"): network, mint and x402 id are configuration, mainnet by
    default with a real node. Money is sent to no key that a run has made for itself, unless it is worth nothing."""
    secrets = wallets.load_or_make(tmp_path)
    real = {"LEDGER_UPSTREAM__NODE_URL": "http://node.example"}
    filled = stores.fill_local(load(real).config, secrets)
    assert filled.payments.network == "mainnet" and filled.payments.deposit_wallet is None
    play = stores.fill_local(load(real | {"LEDGER_PAYMENTS__NETWORK": "devnet"}).config, secrets)
    assert play.payments.deposit_wallet == secrets.deposit.pubkey
    with pytest.raises(ConfigError, match="LEDGER_PAYMENTS__DEPOSIT_WALLET"):
        stores.start_beside(load(real).config)
    assert filled.trades.sol_usd_micro is None, "a real price is read from the chain"
    assert filled.payments.sponsor_key is None, "a key for real money is the operator's to make"


def test_what_is_configured_is_left_alone(tmp_path: Path) -> None:
    """Rule: setting a value uses it; nothing else changes."""
    secrets = wallets.load_or_make(tmp_path)
    wallet = "So11111111111111111111111111111111111111112"
    config = load({"LEDGER_STORAGE__CLUSTER_SECRET": "ours" * 8, "LEDGER_PAYMENTS__DEPOSIT_WALLET": wallet}).config
    filled = stores.fill_local(config, secrets)
    assert filled.storage.cluster_secret is not None
    assert filled.storage.cluster_secret.get_secret_value() == "ours" * 8
    assert filled.payments.deposit_wallet == wallet


def test_a_cluster_is_told_everything_it_lacks_at_once() -> None:
    """Rule: all mistakes are reported together, with the name of the variable that mends each."""
    with pytest.raises(ConfigError) as refused:
        stores.require_cluster_settings(Config())
    for name in ("STORAGE__POSTGRES_URL", "STORAGE__REDIS_URL", "STORAGE__CLUSTER_SECRET", "UPSTREAM__NODE_URL"):
        assert f"LEDGER_{name}" in str(refused.value)
