"""Guards where the sponsor's key comes from, how it is kept, and what is prepared on the chain."""

import json
import stat
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr
from solders.keypair import Keypair

from actors import addresses
from actors.config import Config, ConfigError, PaymentsConfig, UpstreamConfig
from actors.deposits.x402.sponsor_key import key_text, unseal
from actors.launch.local_run import sponsor_setup
from tests.devnode.conftest import StartDevnode, start_devnode  # noqa: F401 - a fixture.

SEED, OTHER = bytes(range(32)), bytes(32)
PUBKEY = str(Keypair.from_seed(SEED).pubkey())
DEPOSIT = str(Keypair.from_seed(b"d" * 32).pubkey())


def config(**payments: object) -> Config:
    return Config(payments=PaymentsConfig.model_validate({"network": "devnet", "deposit_wallet": DEPOSIT} | payments))


def test_without_a_key_settlement_is_off() -> None:
    """Rule: 503 rather than terms that nobody could pay; a public half alone is a mistake, said at the start."""
    assert sponsor_setup.with_sponsor(config(), None, None).payments.sponsor_pubkey is None
    with pytest.raises(ConfigError, match="SPONSOR_KEY"):
        sponsor_setup.with_sponsor(config(sponsor_pubkey=PUBKEY), None, None)


def test_a_key_from_the_environment_comes_first(tmp_path: Path) -> None:
    """Rule: configured wins over kept, kept over made."""
    sponsor_setup.write_sealed(tmp_path / sponsor_setup.KEY_FILE, OTHER, "p")
    given = config(sponsor_key=SecretStr(key_text(SEED)), sponsor_passphrase=SecretStr("p"))
    filled = sponsor_setup.with_sponsor(given, tmp_path, OTHER)
    assert filled.payments.sponsor_pubkey == PUBKEY
    assert "sponsor_key=SecretStr('**********')" in repr(filled.payments)


def test_a_sealed_file_is_opened_with_the_passphrase(tmp_path: Path) -> None:
    """Rule: encrypted at rest; without the passphrase the start fails with the name of the variable to set."""
    sponsor_setup.write_sealed(tmp_path / sponsor_setup.KEY_FILE, SEED, "p")
    opened = sponsor_setup.with_sponsor(config(sponsor_passphrase=SecretStr("p")), tmp_path, None)
    assert opened.payments.sponsor_pubkey == PUBKEY
    with pytest.raises(ConfigError, match="LEDGER_PAYMENTS__SPONSOR_PASSPHRASE"):
        sponsor_setup.with_sponsor(config(), tmp_path, None)
    with pytest.raises(ConfigError, match="passphrase"):
        sponsor_setup.with_sponsor(config(sponsor_passphrase=SecretStr("q")), tmp_path, None)
    with pytest.raises(ConfigError, match="does not exist"):
        sponsor_setup.with_sponsor(config(sponsor_key_file=tmp_path / "other.json"), tmp_path, None)


def test_a_local_run_uses_its_own_key() -> None:
    """Rule: x402 works out of the box on the embedded chain."""
    found = sponsor_setup.find_key(config(), None, SEED)
    assert found is not None and found.seed == SEED
    assert sponsor_setup.with_sponsor(config(), None, SEED).payments.sponsor_pubkey == PUBKEY


def test_a_public_half_must_be_the_keys() -> None:
    """Rule: payers are told the key that signs."""
    given = config(sponsor_key=SecretStr(key_text(SEED)), sponsor_pubkey=DEPOSIT)
    with pytest.raises(ConfigError, match=PUBKEY):
        sponsor_setup.with_sponsor(given, None, None)
    with pytest.raises(ConfigError, match="sponsor_key"):
        sponsor_setup.with_sponsor(config(sponsor_key=SecretStr("nonsense!")), None, None)


def test_a_sealed_file_is_its_owners_alone_and_the_last_one_is_kept(tmp_path: Path) -> None:
    """Rule: a rotation loses no key, as money may still arrive for the old one."""
    path = tmp_path / sponsor_setup.KEY_FILE
    sponsor_setup.write_sealed(path, OTHER, "p")
    sponsor_setup.write_sealed(path, SEED, "p")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert unseal(path.read_text(), "p") == SEED
    assert unseal(path.with_suffix(".previous.json").read_text(), "p") == OTHER
    assert json.loads(path.read_text())["pubkey"] == PUBKEY
    assert len(sponsor_setup.new_seed()) == 32 and sponsor_setup.new_seed() != sponsor_setup.new_seed()


async def test_the_embedded_chain_is_prepared_once(start_devnode: StartDevnode) -> None:  # noqa: F811
    """Rule: after the first start the sponsor has SOL and the deposit account is there; a second one adds nothing."""
    url = start_devnode().url
    filled = sponsor_setup.with_sponsor(config(), None, SEED)
    filled = filled.model_copy(update={"upstream": UpstreamConfig(node_url=url)})
    await sponsor_setup.prepare_embedded(filled)
    async with aiohttp.ClientSession() as session:
        chain = sponsor_setup.Chain(url, session)
        sponsor = Keypair.from_seed(SEED)
        before = await chain.lamports(sponsor.pubkey())
        assert 0 < before < sponsor_setup.EMBEDDED_LAMPORTS, "it has paid for the account"
        assert await chain.exists(sponsor_setup.deposit_account(filled))
        await sponsor_setup.prepare_embedded(filled)
        assert await chain.lamports(sponsor.pubkey()) == before
        new = Keypair()
        moved = await sponsor_setup.move_lamports(chain, sponsor, new.pubkey())
        assert moved == before - 5_000 == await chain.lamports(new.pubkey())
        assert await sponsor_setup.move_lamports(chain, sponsor, new.pubkey()) == 0
    for name, value in (("usdc_mint", DEPOSIT), ("usdc_mint", addresses.SYSTEM_PROGRAM), ("network", "mainnet")):
        payments = filled.payments.model_copy(update={name: value})
        with pytest.raises(sponsor_setup.SponsorFailed, match=rf"^payments\.{name}: .* correct LEDGER_PAYMENTS__"):
            await sponsor_setup.prepare_embedded(filled.model_copy(update={"payments": payments}))


async def test_a_node_that_is_not_there_is_said_so() -> None:
    """Rule: one sentence for the operator, no traceback."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(sponsor_setup.SponsorFailed, match="did not answer"):
            await sponsor_setup.Chain("http://127.0.0.1:1", session).ask("getSlot")
