"""Finds the key that signs and pays for memos of signed statements, and funds it on the embedded chain.

Implements: decisions, "Signed roots" (memos on the chain). Wiring: reads and writes files and calls the node.

The key is looked for as the sponsor's is: `memos.key` (the environment); a sealed file (`memos.key_file`), opened with
`memos.passphrase`; on the embedded chain, whose money is worth nothing, a key that the local run makes.
"""

import secrets
from pathlib import Path

import aiohttp
from pydantic import SecretStr
from solders.keypair import Keypair

from actors.config import Config, ConfigError, environment_name
from actors.deposits.x402.sponsor_key import SALT_BYTES, SEED_BYTES, SponsorKeyError, key_text, parse_key, seal, unseal
from actors.launch.local_run.sponsor_setup import Chain, SponsorFailed
from actors.local_servers.private_files import write_private

EMBEDDED_LAMPORTS = 1_000_000_000
_NONCE_BYTES = 24
_SECONDS = aiohttp.ClientTimeout(total=15)


def with_memos(config: Config, local_seed: bytes | None) -> Config:
    """Return the settings with the key as base58 of 64 bytes, where memos are on. Raises ConfigError."""
    memos = config.memos
    if not memos.enabled:
        return config
    seed = _find_seed(config) or local_seed
    if seed is None:
        raise ConfigError(
            f"memos.enabled: a key has to sign and pay for memos; set {environment_name('memos.key')}, or make a file "
            f"with `memos new-key` and set {environment_name('memos.key_file')}"
        )
    filled = {"key": SecretStr(key_text(seed)), "key_file": None, "passphrase": None}
    return config.model_copy(update={"memos": memos.model_copy(update=filled)})


def _find_seed(config: Config) -> bytes | None:
    memos = config.memos
    if memos.key is not None:
        try:
            return parse_key(memos.key.get_secret_value())
        except SponsorKeyError:  # Its text names another key.
            raise ConfigError(
                "memos.key: wanted a secret key of 32 or 64 bytes: base58, hex, or the JSON list of solana-keygen"
            ) from None
    if memos.key_file is None:
        return None
    if memos.passphrase is None:
        wanted = environment_name("memos.passphrase")
        raise ConfigError(f"memos.passphrase: {memos.key_file} is sealed; set {wanted}")
    try:
        return unseal(memos.key_file.read_text(encoding="utf-8"), memos.passphrase.get_secret_value())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"memos.key_file: {memos.key_file} cannot be read: {type(error).__name__}") from None
    except SponsorKeyError:
        raise ConfigError(
            f"memos.key_file: {memos.key_file} does not open: memos.passphrase is wrong, or it is damaged"
        ) from None


def make_key_file(path: Path, passphrase: str) -> str:
    """Make a key, and write it sealed to a new file that only its owner may read. Return its address. Raises
    ConfigError."""
    if path.exists():
        raise ConfigError(f"{path} exists, and may hold a key with money: name a new file")
    seed = secrets.token_bytes(SEED_BYTES)
    write_private(path, seal(seed, passphrase, secrets.token_bytes(SALT_BYTES), secrets.token_bytes(_NONCE_BYTES)))
    return str(Keypair.from_seed(seed).pubkey())


def payer_of(config: Config) -> Keypair:
    """The key of settings that `with_memos` has filled."""
    assert config.memos.key is not None
    return Keypair.from_base58_string(config.memos.key.get_secret_value())


async def fund_embedded(config: Config) -> None:
    """Have the embedded chain's faucet fund the key, where memos are on and it has little. Raises SponsorFailed."""
    url = config.upstream.node_url
    if not config.memos.enabled or url is None:
        return
    payer = payer_of(config).pubkey()
    async with aiohttp.ClientSession(timeout=_SECONDS) as session:
        if await Chain(url, session).lamports(payer) >= config.memos.low_lamports:
            return
        fund = {"pubkey": str(payer), "lamports": EMBEDDED_LAMPORTS}
        async with session.post(f"{url}/admin/fund", json=fund) as response:
            if response.status != 200:
                raise SponsorFailed(f"funding the key of memos: HTTP {response.status}: {await response.text()}")
