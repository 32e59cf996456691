"""Guards where the key of memos comes from, how it is kept, and that it has money on the embedded chain."""

import asyncio
import stat
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr
from solders.keypair import Keypair

from actors.config import Config, ConfigError, UpstreamConfig
from actors.deposits.x402.sponsor_key import key_text
from actors.launch.local_run import memo_setup
from actors.launch.local_run.sponsor_setup import Chain
from actors.launch.local_run.wallets import load_or_make
from actors.provider_config import MemosConfig
from tests.devnode.conftest import StartDevnode, start_devnode  # noqa: F401 - a fixture.

SEED, OTHER = bytes(range(32)), b"o" * 32
PUBKEY = Keypair.from_seed(SEED).pubkey()


def config(**memos: object) -> Config:
    return Config(memos=MemosConfig.model_validate({"enabled": True} | memos))


def test_memos_are_off_by_default_and_need_a_key_of_their_own() -> None:
    assert memo_setup.with_memos(Config(), OTHER) == Config()
    with pytest.raises(ConfigError, match=r"LEDGER_MEMOS__KEY, .*LEDGER_MEMOS__KEY_FILE"):
        memo_setup.with_memos(config(), None)


def test_a_configured_key_comes_before_one_that_is_made(tmp_path: Path) -> None:
    filled = memo_setup.with_memos(config(key=SecretStr(key_text(SEED))), OTHER)
    assert memo_setup.payer_of(filled).pubkey() == PUBKEY and key_text(SEED) not in repr(filled)
    made = memo_setup.with_memos(config(), load_or_make(tmp_path).memos.seed)
    secrets = load_or_make(tmp_path)
    assert str(memo_setup.payer_of(made).pubkey()) == secrets.memos.pubkey != secrets.sponsor.pubkey
    with pytest.raises(ConfigError, match=r"memos\.key: wanted"):
        memo_setup.with_memos(config(key=SecretStr("nonsense!")), OTHER)


def test_a_sealed_file_is_made_once_and_opened_with_its_passphrase(tmp_path: Path) -> None:
    """Its owner alone may read it, it does not have the key in clear, and nothing is overwritten."""
    path = tmp_path / "memos.json"
    address = memo_setup.make_key_file(path, "p")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    filled = memo_setup.with_memos(config(key_file=path, passphrase=SecretStr("p")), None)
    assert str(memo_setup.payer_of(filled).pubkey()) == address
    assert filled.memos.key is not None and filled.memos.key.get_secret_value() not in path.read_text()
    assert filled.memos.passphrase is None, "no process needs it any more"
    with pytest.raises(ConfigError, match="name a new file"):
        memo_setup.make_key_file(path, "p")
    for wrong, words in (
        ({"key_file": path}, "LEDGER_MEMOS__PASSPHRASE"),
        ({"key_file": path, "passphrase": "q"}, "does not open"),
        ({"key_file": tmp_path / "other", "passphrase": "p"}, "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=words):
            memo_setup.with_memos(config(**wrong), None)


async def test_the_embedded_chain_funds_the_key(start_devnode: StartDevnode) -> None:  # noqa: F811
    url = start_devnode().url
    wanted = memo_setup.with_memos(config(), SEED).model_copy(update={"upstream": UpstreamConfig(node_url=url)})
    await memo_setup.fund_embedded(wanted.model_copy(update={"memos": MemosConfig()}))
    async with aiohttp.ClientSession() as session:
        chain = Chain(url, session)
        assert await chain.lamports(PUBKEY) == 0, "memos are off"
        for _ in range(2):  # The second time it has enough.
            await memo_setup.fund_embedded(wanted)
            async with asyncio.timeout(20):
                while await chain.lamports(PUBKEY) == 0:  # noqa: ASYNC110 - of another process: not confirmed yet.
                    await asyncio.sleep(0.01)
            assert await chain.lamports(PUBKEY) == memo_setup.EMBEDDED_LAMPORTS
