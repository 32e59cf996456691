"""Chooses the gateway and the caller: from options, then the environment, then the saved profile.

Implements: README.md of this folder. The profile is a file of mode 600; a saved key belongs to the URL that gave it, so
that no gateway receives the key of another one.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ledger_gateway.cli.arguments import KEY_VARIABLE, KEYPAIR_VARIABLE, PROFILE_VARIABLE, URL_VARIABLE
from ledger_gateway.client import DEFAULT_URL
from ledger_gateway.credentials import ApiKey, Credential, Wallet
from ledger_gateway.transport import checked_url


class ProfileError(Exception):
    """The profile or an option cannot be used; the text says what to do."""


@dataclass(slots=True)
class Saved:
    """The saved profile. keys: API keys by URL."""

    path: Path
    url: str | None = None
    keypair: str | None = None
    keys: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, environment: Mapping[str, str]) -> "Saved":
        path = profile_path(environment)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            keys = {str(url): str(key) for url, key in found.get("keys", {}).items()}
            return cls(path, found.get("url"), found.get("keypair"), keys)
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, AttributeError, RecursionError):
            raise ProfileError(f"{path} cannot be read: correct or delete it") from None

    def save(self) -> None:
        """Replace the file whole, so that a stop in between leaves the old or the new one."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = json.dumps({"url": self.url, "keypair": self.keypair, "keys": self.keys}, indent=2)
        with tempfile.NamedTemporaryFile(
            "w", dir=self.path.parent, delete=False, encoding="utf-8"
        ) as file:  # Mode 600.
            file.write(content)
        os.replace(file.name, self.path)


@dataclass(frozen=True, slots=True)
class Profile:
    """url: of the gateway. keypair: file of the wallet. node_url: of a Solana node, for deposits."""

    url: str
    key: str | None
    keypair: Path | None
    saved: Saved

    def credential(self) -> Credential:
        """Return the API key, else the wallet, else nothing. Raises BadCredential."""
        if self.key is not None:
            return ApiKey(self.key)
        return None if self.keypair is None else Wallet.from_file(self.keypair)

    def wallet(self) -> Wallet:
        """Return the wallet, for what a key cannot do. Raises ProfileError, BadCredential."""
        if self.keypair is None:
            raise ProfileError(
                f"this needs your wallet: pass --keypair FILE, or set {KEYPAIR_VARIABLE}; "
                "`ledger-gateway wallet new` makes one"
            )
        return Wallet.from_file(self.keypair)


def resolve(url: str | None, key: str | None, keypair: Path | None, environment: Mapping[str, str]) -> Profile:
    """Return what a command shall use. Raises ProfileError.

    An option wins over the environment, and that over the saved profile. A key pair that is given as an option is the
    caller, even where a key is in the environment or the profile.
    """
    saved = Saved.load(environment)
    try:
        where = checked_url(url or environment.get(URL_VARIABLE) or saved.url or DEFAULT_URL)
    except ValueError as error:
        raise ProfileError(f"{error}; it came from --url, {URL_VARIABLE} or {saved.path}") from None
    told_key = key or (None if keypair is not None else environment.get(KEY_VARIABLE) or None)
    told_pair = keypair or _path(environment.get(KEYPAIR_VARIABLE))
    if told_key is None and told_pair is None:
        told_key = saved.keys.get(where)
    return Profile(where, told_key, told_pair or _path(saved.keypair), saved)


def profile_path(environment: Mapping[str, str]) -> Path:
    if PROFILE_VARIABLE in environment:
        return Path(environment[PROFILE_VARIABLE]).expanduser()
    return config_folder(environment) / "profile.json"


def config_folder(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "ledger-gateway"


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
