"""Finds the sponsor's key, and prepares the sponsor and the deposit account on the chain.

Implements: interface, "Payment settlement" (settlement is off without a key: 503); decisions, "Two ways to pay by
x402"; the operator's `sponsor` commands. Wiring: reads and writes files and calls the node. Parsing and encryption of a
key are in deposits/x402/sponsor_key.py.

The key is looked for in this order: `payments.sponsor_key` (the environment); a sealed file
(`payments.sponsor_key_file`, or sponsor.json in the data folder's secrets), opened with `payments.sponsor_passphrase`;
on the embedded chain, whose money is worth nothing, a key that the local run makes.
"""

import asyncio
import base64
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from pydantic import SecretStr
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from actors import addresses
from actors.config import Config, ConfigError, environment_name
from actors.deposits.x402.sponsor_key import SALT_BYTES, SEED_BYTES, SponsorKeyError, key_text, parse_key, seal, unseal
from actors.local_servers.private_files import write_private
from actors.x402_types import mint_of

KEY_FILE = "sponsor.json"
_PREVIOUS = ".previous.json"  # Replaces the suffix of the previous key's file.
KEY_FILES = (KEY_FILE, Path(KEY_FILE).with_suffix(_PREVIOUS).name)
EMBEDDED_LAMPORTS = 10_000_000_000
_FEE_LAMPORTS = 5_000  # Fee of a transaction with one signature.
_NONCE_BYTES = 24
_WAIT_STEPS, _WAIT_SECONDS = 60, 0.25
_SECONDS = aiohttp.ClientTimeout(total=15)
_SYSTEM_PROGRAM = Pubkey.from_string(addresses.SYSTEM_PROGRAM)
_TOKEN_PROGRAM = Pubkey.from_string(addresses.TOKEN_PROGRAM)
_ASSOCIATED_TOKEN_PROGRAM = Pubkey.from_string(addresses.ASSOCIATED_TOKEN_PROGRAM)
_CREATE_IDEMPOTENT = b"\x01"


class SponsorFailed(Exception):
    """A step failed; the text names the step and what the operator can do."""


@dataclass(frozen=True, slots=True)
class Found:
    seed: bytes
    source: str


def find_key(config: Config, secrets_folder: Path | None, local_seed: bytes | None) -> Found | None:
    """Find the sponsor's key and its origin. None: x402 is off. Raises ConfigError."""
    payments = config.payments
    try:
        if payments.sponsor_key is not None:
            return Found(parse_key(payments.sponsor_key.get_secret_value()), "payments.sponsor_key")
        path = key_path(config, secrets_folder)
        text = None if path is None else _sealed_text(path)
        if text is not None:
            if payments.sponsor_passphrase is None:
                wanted = environment_name("payments.sponsor_passphrase")
                raise ConfigError(f"payments.sponsor_passphrase: {path} is sealed; set {wanted}")
            return Found(unseal(text, payments.sponsor_passphrase.get_secret_value()), str(path))
    except SponsorKeyError as error:
        raise ConfigError(f"payments.sponsor_key: {error}") from None
    if payments.sponsor_key_file is not None:
        raise ConfigError(f"payments.sponsor_key_file: {payments.sponsor_key_file} does not exist")
    return None if local_seed is None else Found(local_seed, "made by this local run")


def _sealed_text(path: Path) -> str | None:
    """Return the content of a sealed file. None: it does not exist. Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"payments.sponsor_key_file: {path} cannot be read: {type(error).__name__}") from None


def key_path(config: Config, secrets_folder: Path | None) -> Path | None:
    if config.payments.sponsor_key_file is not None:
        return config.payments.sponsor_key_file
    return None if secrets_folder is None else secrets_folder / KEY_FILE


def with_sponsor(config: Config, secrets_folder: Path | None, local_seed: bytes | None) -> Config:
    """Return the settings with the sponsor's key and public key, or with neither. Raises ConfigError."""
    payments = config.payments
    found = find_key(config, secrets_folder, local_seed)
    if found is None:
        if payments.sponsor_pubkey is not None:
            raise ConfigError(
                "payments.sponsor_pubkey: no x402 payment can be settled without its key; "
                f"set {environment_name('payments.sponsor_key')} too"
            )
        return config
    pubkey = str(Keypair.from_seed(found.seed).pubkey())
    if payments.sponsor_pubkey not in (None, pubkey):
        raise ConfigError(f"payments.sponsor_pubkey: the sponsor's key is that of {pubkey}")
    filled = {"sponsor_key": SecretStr(key_text(found.seed)), "sponsor_pubkey": pubkey}
    return config.model_copy(update={"payments": payments.model_copy(update=filled)})


def write_sealed(path: Path, seed: bytes, passphrase: str) -> None:
    """Write the sealed key as a whole, readable by its owner only. A copy of a previous file is kept."""
    text = seal(seed, passphrase, secrets.token_bytes(SALT_BYTES), secrets.token_bytes(_NONCE_BYTES))
    if path.exists():
        write_private(path.with_suffix(_PREVIOUS), path.read_text(encoding="utf-8"))
    write_private(path, text)


def new_seed() -> bytes:
    return secrets.token_bytes(SEED_BYTES)


# --- on the chain


class Chain:
    """Calls to the node for an operator who waits for them. Each raises SponsorFailed."""

    def __init__(self, node_url: str, session: aiohttp.ClientSession) -> None:
        self._url, self._session = node_url, session

    async def ask(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        try:
            async with self._session.post(self._url, json=body) as response:
                answer = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise SponsorFailed(f"the node did not answer {method}: {type(error).__name__}") from None
        if not isinstance(answer, dict) or "result" not in answer:
            raise SponsorFailed(f"the node refused {method}: {_message_of(answer)}")
        return answer["result"]

    async def identity(self) -> str:
        return str((await self.ask("getIdentity"))["identity"])

    async def lamports(self, pubkey: Pubkey) -> int:
        return int((await self.ask("getBalance", str(pubkey), {"commitment": "confirmed"}))["value"])

    async def exists(self, address: Pubkey) -> bool:
        return await self.program_of(address) is not None

    async def program_of(self, address: Pubkey) -> str | None:
        """Return the program that owns this account. None: there is no such account."""
        config = {"commitment": "confirmed", "encoding": "base64"}
        found = (await self.ask("getAccountInfo", str(address), config))["value"]
        return None if found is None else str(found["owner"])

    async def land(self, payer: Keypair, *instructions: Instruction) -> str:
        """Send one transaction with these instructions, wait until it is confirmed, and return its signature."""
        latest = (await self.ask("getLatestBlockhash", {"commitment": "confirmed"}))["value"]["blockhash"]
        message = MessageV0.try_compile(payer.pubkey(), list(instructions), [], Hash.from_string(latest))
        raw = bytes(VersionedTransaction(message, [payer]))
        # "processed", because the payer may have received its money a moment ago.
        config = {"encoding": "base64", "preflightCommitment": "processed"}
        signature = str(await self.ask("sendTransaction", base64.b64encode(raw).decode(), config))
        for _ in range(_WAIT_STEPS):
            status = (await self.ask("getSignatureStatuses", [signature]))["value"][0]
            if status is not None and status["err"] is not None:
                raise SponsorFailed(f"{signature} failed: {status['err']}")
            if status is not None and status["confirmationStatus"] in ("confirmed", "finalized"):
                return signature
            await asyncio.sleep(_WAIT_SECONDS)
        raise SponsorFailed(f"{signature} was sent and is not confirmed yet: look it up before you try again")


def _message_of(answer: Any) -> str:
    """Return the message of a JSON-RPC error, as the node wrote it."""
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return str(message) if message else "its answer is not JSON-RPC; is this the URL of a Solana node?"


def deposit_account(config: Config) -> Pubkey:
    assert config.payments.deposit_wallet is not None, "the wiring settles the deposit wallet"
    wallet = Pubkey.from_string(config.payments.deposit_wallet)
    return get_associated_token_address(wallet, Pubkey.from_string(mint_of(config.payments)))


async def open_deposit_account(chain: Chain, config: Config, sponsor: Keypair) -> bool:
    """Create the deposit wallet's token account at the sponsor's expense. False: it existed already."""
    account = deposit_account(config)
    if await chain.exists(account):
        return False
    mint = mint_of(config.payments)
    if await chain.program_of(Pubkey.from_string(mint)) != addresses.TOKEN_PROGRAM:
        name = "payments.network" if config.payments.usdc_mint is None else "payments.usdc_mint"
        raise SponsorFailed(f"{name}: USDC is {mint} by it, no mint of this chain; correct {environment_name(name)}")
    assert config.payments.deposit_wallet is not None
    accounts = [
        AccountMeta(sponsor.pubkey(), True, True),
        AccountMeta(account, False, True),
        AccountMeta(Pubkey.from_string(config.payments.deposit_wallet), False, False),
        AccountMeta(Pubkey.from_string(mint), False, False),
        AccountMeta(_SYSTEM_PROGRAM, False, False),
        AccountMeta(_TOKEN_PROGRAM, False, False),
    ]
    await chain.land(sponsor, Instruction(_ASSOCIATED_TOKEN_PROGRAM, _CREATE_IDEMPOTENT, accounts))
    return True


async def move_lamports(chain: Chain, old: Keypair, new: Pubkey) -> int:
    """Move all lamports of the old sponsor, less the fee, to the new one, and return their number."""
    lamports = await chain.lamports(old.pubkey()) - _FEE_LAMPORTS
    if lamports <= 0:
        return 0
    give = transfer(TransferParams(from_pubkey=old.pubkey(), to_pubkey=new, lamports=lamports))
    await chain.land(old, give)
    return lamports


async def prepare_embedded(config: Config) -> None:
    """Prepare x402 on the embedded chain: the faucet funds the sponsor, which creates the deposit account."""
    payments, url = config.payments, config.upstream.node_url
    if payments.sponsor_key is None or url is None:
        return
    sponsor = Keypair.from_seed(parse_key(payments.sponsor_key.get_secret_value()))
    async with aiohttp.ClientSession(timeout=_SECONDS) as session:
        chain = Chain(url, session)
        if await chain.lamports(sponsor.pubkey()) < payments.sponsor_low_lamports + _FEE_LAMPORTS:
            fund = {"pubkey": str(sponsor.pubkey()), "lamports": EMBEDDED_LAMPORTS}
            async with session.post(f"{url}/admin/fund", json=fund) as response:
                if response.status != 200:
                    raise SponsorFailed(f"funding the sponsor: HTTP {response.status}: {await response.text()}")
        await open_deposit_account(chain, config, sponsor)
