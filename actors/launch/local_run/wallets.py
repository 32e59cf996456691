"""Key pairs and secrets that a local run makes and keeps in its data folder, readable by the folder's owner only.

Implements: the local run's deposit wallet, fee sponsor, demo wallet and cluster secret, where none is configured.
Not here: their use.
"""

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from actors.identity.operator_token import new_token
from actors.local_servers.datadir import DataDirError
from actors.local_servers.private_files import write_private
from actors.units import base58_text

FILE = "local.json"
_MADE = ("cluster_secret", "ray_token", "deposit", "sponsor", "demo")


@dataclass(frozen=True, slots=True)
class Wallet:
    seed: bytes

    @property
    def pubkey(self) -> str:
        return base58_text(SigningKey(self.seed).verify_key.encode())

    @property
    def secret_key(self) -> str:
        """Return the base58 text of seed and public key (64 bytes), which wallets and Solana tools import."""
        return base58_text(self.seed + SigningKey(self.seed).verify_key.encode())

    def sign(self, message: bytes) -> str:
        """Return the Ed25519 signature of a message as base58 text."""
        return base58_text(SigningKey(self.seed).sign(message).signature)


@dataclass(frozen=True, slots=True)
class LocalSecrets:
    cluster_secret: str
    ray_token: str
    deposit: Wallet
    sponsor: Wallet
    demo: Wallet
    demo_api_key: str | None

    @property
    def operator_token(self) -> str:
        """Return the operators' token, derived from another secret of this file, because older files have none."""
        purpose = b"ledger-gateway operator " + self.cluster_secret.encode()
        return new_token(hashlib.sha256(purpose).digest())

    @property
    def memos(self) -> Wallet:
        """Return the payer of memos on the embedded chain, derived from another key, because older files have none."""
        return Wallet(hashlib.sha256(b"ledger-gateway memos " + self.sponsor.seed).digest())


def load_or_make(folder: Path) -> LocalSecrets:
    """Return the secrets in this folder, which only its owner may enter. The first start makes them.

    Raises DataDirError for a file that cannot be read: it is never replaced, because money may be lost with its keys.
    """
    path = folder / FILE
    try:
        if path.exists():
            return _secrets_in(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise DataDirError(
            f"{path}: not a whole file of secrets ({type(error).__name__}); put a copy of it back, or move it away "
            "and start with --fresh"
        ) from None
    kept: dict[str, Any] = {name: secrets.token_hex(32) for name in _MADE} | {"demo_api_key": None}
    write_private(path, json.dumps(kept))
    return _secrets_in(kept)


def _secrets_in(kept: dict[str, Any]) -> LocalSecrets:
    return LocalSecrets(
        cluster_secret=kept["cluster_secret"],
        ray_token=kept["ray_token"],
        deposit=Wallet(bytes.fromhex(kept["deposit"])),
        sponsor=Wallet(bytes.fromhex(kept["sponsor"])),
        demo=Wallet(bytes.fromhex(kept["demo"])),
        demo_api_key=kept["demo_api_key"],
    )


def keep_demo_api_key(folder: Path, api_key: str) -> None:
    """Keep the demo's API key, so that the next start can print it again: the service stores its hash only."""
    path = folder / FILE
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["demo_api_key"] = api_key
    write_private(path, json.dumps(kept))


def replace_sponsor(folder: Path, seed: bytes) -> Path:
    """Make the next start use this sponsor key, and return the file. The previous key stays in it, because money may
    still arrive for that key."""
    path = folder / FILE
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["sponsor_previous"], kept["sponsor"] = kept["sponsor"], seed.hex()
    write_private(path, json.dumps(kept))
    return path
