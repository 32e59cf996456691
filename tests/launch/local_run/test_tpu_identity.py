"""The identity for leaders: from the settings or a file, checked at the start, and never shown."""

import json
from pathlib import Path

import base58
import pytest
from pydantic import SecretStr
from solders.keypair import Keypair

from actors.config import Config, ConfigError, SendsConfig
from actors.launch.local_run.tpu_identity import with_tpu_identity
from actors.sends.host import identity_of

KEYPAIR = Keypair.from_seed(bytes(range(32)))
FORMS = {
    "base58": base58.b58encode(bytes(KEYPAIR)).decode(),
    "json": json.dumps(list(bytes(KEYPAIR))),
    "seed": base58.b58encode(bytes(range(32))).decode(),
}


def pubkey_of(config: Config) -> bytes:
    return identity_of(config.sends).public_key().public_bytes_raw()


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_key_gives_its_identity(form: str, tmp_path: Path) -> None:
    path = tmp_path / "identity.json"
    path.write_text(FORMS[form] + "\n")
    for sends in (SendsConfig(tpu_identity_key=SecretStr(FORMS[form])), SendsConfig(tpu_identity_file=path)):
        settled = with_tpu_identity(Config(sends=sends))
        assert pubkey_of(settled) == bytes(KEYPAIR.pubkey())
        assert settled.sends.tpu_identity_file is None  # Racers on other machines do not have the file.
        assert FORMS["base58"] not in repr(settled)


def test_without_a_key_each_racer_has_a_new_identity() -> None:
    config = with_tpu_identity(Config())
    assert config == Config() and pubkey_of(config) != pubkey_of(config)


def test_a_bad_key_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """And is not in the message."""
    damaged = bytes(KEYPAIR)[:32] + bytes(Keypair().pubkey())
    for text in ("not a key", base58.b58encode(damaged).decode(), "[1, 2, 3]"):
        with pytest.raises(ConfigError, match="tpu_identity_key: wanted a secret key") as refused:
            with_tpu_identity(Config(sends=SendsConfig(tpu_identity_key=SecretStr(text))))
        assert text not in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        with_tpu_identity(Config(sends=SendsConfig(tpu_identity_file=tmp_path / "none")))
