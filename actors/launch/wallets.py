"""Key pairs and secrets that a local run makes for itself and keeps in its data folder, readable by the owner only.

Implements: the local run's deposit wallet, fee sponsor, demo wallet and cluster secret, where none is configured.
Not here: what they are used for.
"""

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from nacl.signing import SigningKey

from actors.units import base58_text

FILE = "local.json"


@dataclass(frozen=True, slots=True)
class Wallet:
    seed: bytes

    @property
    def pubkey(self) -> str:
        return base58_text(SigningKey(self.seed).verify_key.encode())

    @property
    def secret_key(self) -> str:
        """Base58 of 64 bytes: seed, then public key; what wallets and Solana tools import."""
        return base58_text(self.seed + SigningKey(self.seed).verify_key.encode())

    def sign(self, message: bytes) -> str:
        """Base58 Ed25519 signature."""
        return base58_text(SigningKey(self.seed).sign(message).signature)


@dataclass(frozen=True, slots=True)
class LocalSecrets:
    cluster_secret: str
    ray_token: str
    deposit: Wallet
    sponsor: Wallet
    demo: Wallet
    demo_api_key: str | None


def load_or_make(folder: Path) -> LocalSecrets:
    """The secrets in this folder, which only its owner may enter; made on the first start, the same ever after."""
    path = folder / FILE
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
    else:
        kept = {name: secrets.token_hex(32) for name in ("cluster_secret", "ray_token", "deposit", "sponsor", "demo")}
        kept["demo_api_key"] = None
        _write(path, kept)
    return LocalSecrets(
        cluster_secret=kept["cluster_secret"],
        ray_token=kept["ray_token"],
        deposit=Wallet(bytes.fromhex(kept["deposit"])),
        sponsor=Wallet(bytes.fromhex(kept["sponsor"])),
        demo=Wallet(bytes.fromhex(kept["demo"])),
        demo_api_key=kept["demo_api_key"],
    )


def keep_demo_api_key(folder: Path, api_key: str) -> None:
    """The service stores only a hash; the demo's key is kept here so that a second start can print it again."""
    path = folder / FILE
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["demo_api_key"] = api_key
    _write(path, kept)


def replace_sponsor(folder: Path, seed: bytes) -> Path:
    """The next start uses this one; the one before is kept, as money may still arrive for it. Gives the file."""
    path = folder / FILE
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["sponsor_previous"], kept["sponsor"] = kept["sponsor"], seed.hex()
    _write(path, kept)
    return path


def _write(path: Path, content: dict[str, str | None]) -> None:
    scratch = path.with_suffix(".new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
