"""The settings that one actor uses, and their fingerprint, which tells a new deployment which actors to replace.

Implements: decisions, "Fingerprint of a running actor". Pure.

An actor gets a copy of the settings with only those that it names. Reading another one raises AttributeError, so its
fingerprint covers all that it can read. A change of a setting that it does not name leaves it running.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from actors.config import Config

# Used by every actor: its log, and the page of metrics.
OF_EVERY_ACTOR = ("telemetry", "serve.internal_port_first")
# Used by every actor that reaches the owners of accounts (accounts/client.py).
OF_OWNERS_CLIENTS = (
    "gateway.hold_wait_ms",
    "gateway.settle_wait_ms",
    "storage.cluster_secret",
)
_KEY_OF = b"fingerprints of actors"
_SHOWN_CHARACTERS = 24  # 96 bits of each branch's hash: two settings with one hash are not found by chance.


def part_of(config: Config, names: Iterable[str]) -> Config:
    """Return a copy that has only these settings, each named as `branch` or `branch.field`."""
    wanted: dict[str, set[str]] = {}
    for name in names:
        branch, _, field = name.partition(".")
        fields = wanted.setdefault(branch, set())
        fields.update([field] if field else vars(getattr(config, branch)))
    branches = {branch: _with_only(getattr(config, branch), fields) for branch, fields in wanted.items()}
    part: Config = _with_only(config, branches)
    vars(part).update(branches)
    return part


def fingerprint(config: Config, names: Iterable[str]) -> str:
    """Return the release that made the settings, and for each branch of them a hash.

    Not the release of the code here: where machines have different code, the replicas of one deployment would replace
    each other's actors. So a replica that starts anew on other code replaces none; the next deployment does.

    The hashes are keyed with the cluster's secret, because the settings contain passwords and keys of providers:
    without the secret nobody can try values. A changed cluster secret changes every hash.
    """
    secret = config.storage.cluster_secret
    key = hmac.digest(b"" if secret is None else secret.get_secret_value().encode(), _KEY_OF, hashlib.sha256)
    part = part_of(config, names)
    hashes = [f"{branch}:{_hash(key, branch, settings)}" for branch, settings in sorted(vars(part).items())]
    return " ".join((config.release, *hashes))


def differences(one: str, other: str) -> str:
    """Return which parts of two fingerprints differ: branches of the settings, or the release."""
    words = sorted(set(one.split(" ")) ^ set(other.split(" ")))
    return ", ".join(dict.fromkeys(word.partition(":")[0] if ":" in word else "release" for word in words))


def _with_only(model: Any, fields: Iterable[str]) -> Any:
    copy = model.model_copy()
    for name in set(vars(copy)) - set(fields):
        del vars(copy)[name]
    return copy


def _hash(key: bytes, branch: str, settings: Any) -> str:
    text = json.dumps([branch, settings], default=_plain, sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:_SHOWN_CHARACTERS]


def _plain(value: Any) -> Any:
    """Return a value of a setting as JSON has it; a secret in clear, as the text is only hashed."""
    match value:
        case BaseModel():
            return vars(value)
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value)
    raise TypeError(f"no form for a setting of type {type(value).__name__}")
