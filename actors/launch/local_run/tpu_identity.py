"""The identity that racers show to leaders: read from the settings or a file, and checked before anything starts.

Implements: interface, sendAndConfirm ("Legs": direct TPU QUIC). The key goes on in the settings, so that racers on
other machines have it too; it never appears in a message. Not here: the connections (sends/tpu.py).
"""

from pydantic import SecretStr

from actors.config import Config, ConfigError
from actors.deposits.x402.sponsor_key import SponsorKeyError, key_text, parse_key

_WANTED = "wanted a secret key of 32 or 64 bytes: base58, hex, or the JSON list that solana-keygen writes"


def with_tpu_identity(config: Config) -> Config:
    """Return the settings with the key as base58 of 64 bytes, and without the file. Raises ConfigError."""
    sends = config.sends
    if sends.tpu_identity_file is not None:
        name = "tpu_identity_file"
        try:
            text = sends.tpu_identity_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"sends.{name}: {sends.tpu_identity_file} cannot be read: {error}") from None
    elif sends.tpu_identity_key is not None:
        name, text = "tpu_identity_key", sends.tpu_identity_key.get_secret_value()
    else:
        return config
    try:
        key = SecretStr(key_text(parse_key(text)))
    except SponsorKeyError:  # Its text names another key.
        raise ConfigError(f"sends.{name}: {_WANTED}, whose halves belong together") from None
    filled = {"tpu_identity_key": key, "tpu_identity_file": None}
    return config.model_copy(update={"sends": sends.model_copy(update=filled)})
