"""Settings of nodes and block engines, whose URLs may be keys, and of memos on the chain; the form of all settings, and
of the cluster's secret.

Implements: style, "Configuration". Not here: the tree (config.py), reading values (config_loader.py).
"""

from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from actors.release import RELEASE

# With greatest values beyond every use: a number that JSON, PostgreSQL or Redis cannot hold would fail calls.
Count = Annotated[int, Field(le=10**9)]
Bytes = Annotated[int, Field(le=1 << 40)]
Lamports = Annotated[int, Field(le=10**18)]  # More than there are.
# 128 random bits in base64. Not more: a longer secret of a running cluster stays good, as a change of it costs the
# secrets of webhooks.
CLUSTER_SECRET_CHARACTERS_MIN = 22
_DEFAULT_PORTS = MappingProxyType({"http": 80, "https": 443})


class Branch(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_not_blank(cls, value: Any) -> Any:
        """Refuse blank text, as a line `NAME=` leaves it: it would be a secret that everybody knows, the folder that a
        command happens to run in, or an address that means all addresses."""
        text = plain_text(value)
        if isinstance(text, str) and not text.strip():
            raise ValueError("it is empty; leave it out for the default, or give a value")
        return value


class Released(Branch):
    _release: str = PrivateAttr(RELEASE)

    @property
    def release(self) -> str:
        """Return the release of the code that made these settings: of a deployment, wherever they travel with it."""
        return self._release


class NodeConfig(Branch):
    """One of several nodes. Its URLs may contain keys, so they are secrets; logs and answers show its name."""

    name: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9-]{0,31}$", description="name in logs and in X-Node")
    url: SecretStr = Field(description="JSON-RPC URL")
    ws_url: SecretStr | None = Field(None, description="WebSocket URL; the first node's speeds up deposits")
    weight: int = Field(1, ge=0, le=1_000, description="share of the calls; 0: only when no other node can answer")
    roles: tuple[Literal["read", "send", "archive"], ...] = Field(
        ("read", "send"), min_length=1, description="kinds of calls; archive: blocks and transactions go there first"
    )

    @field_validator("url", "ws_url")
    @classmethod
    def _is_a_url(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        required_url(plain_text(value), ("http", "https") if info.field_name == "url" else ("ws", "wss"))
        return value


class BlockEngineConfig(Branch):
    """One of several block engines, such as a region. Its URL may contain a key, so it is a secret."""

    url: SecretStr = Field(description="URL of the engine")
    requests_per_second: float = Field(1.0, ge=0.1, le=10_000, description="that the engine takes of all racers")
    auth: SecretStr | None = Field(None, description="UUID that raises the engine's limit")

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, value: SecretStr) -> SecretStr:
        required_url(value.get_secret_value(), ("http", "https"))
        return value


def shown_url(url: str) -> str:
    """Return scheme, host and port: user, password, path and query of a provider's URL may be its key."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(not a URL)"
    hidden = "/..." if parts.path.strip("/") or parts.query or parts.fragment else ""
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{hidden}"


def is_url(text: str, schemes: tuple[str, ...]) -> bool:
    # urlsplit drops line ends and accepts the other characters.
    if not text.isprintable() or "\\" in text or " " in text:
        return False
    try:
        parts = urlsplit(text)
        (parts.hostname or "").encode("idna")  # An empty or too long label would never reach a name server.
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def required_url(text: str | None, schemes: tuple[str, str]) -> str | None:
    """Return the URL, or None where there is none. Raises ValueError without the text, which may hold a key."""
    if text is not None and not is_url(text, schemes):
        raise ValueError(f"wanted a URL that begins with {schemes[0]}:// or {schemes[1]}://, and has a host")
    return text


class MemosConfig(Branch):
    enabled: bool = Field(False, description="send the newest signed statement of each series to the chain, every hour")
    key: SecretStr | None = Field(None, description="secret key that signs and pays for them, and does nothing else")
    key_file: Path | None = Field(None, description="encrypted file with the key, made by `memos new-key`")
    passphrase: SecretStr | None = Field(None, description="passphrase of the encrypted file")
    unit_price_micro_lamports: int = Field(10_000, ge=0, le=1_000_000, description="priority fee for a compute unit")
    low_lamports: Lamports = Field(10_000_000, ge=0, description="with less on the key, the log says so")


def browser_origin(url: str) -> str:
    """Return the origin of a URL in the one spelling that browsers send. Raises ValueError where it is no origin."""
    if not is_url(url, ("http", "https")):
        raise ValueError("wanted an origin: https://, a host, and its port where that is not the usual one")
    parts = urlsplit(url)
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("wanted an origin: neither user nor path nor query")
    host = (parts.hostname or "").encode("idna").decode()
    shown = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{shown}{port}"


Origin = Annotated[str, AfterValidator(browser_origin)]


def _not_guessable(secret: SecretStr) -> SecretStr:
    """Refuse a short secret: whoever sees one signed challenge can try all short ones, and whoever has the secret
    spends every account's credits."""
    length = len(secret.get_secret_value())
    if length < CLUSTER_SECRET_CHARACTERS_MIN:
        raise ValueError(
            f"it has {length} characters, wanted at least {CLUSTER_SECRET_CHARACTERS_MIN} random ones, as "
            "`openssl rand -hex 32` prints them. A cluster that runs with this one: stop Ray on all machines and start "
            'it with the new one; what it sealed is lost (actors/launch/README.md, "Another cluster secret")'
        )
    return secret


ClusterSecret = Annotated[SecretStr, AfterValidator(_not_guessable)]


def plain_text(value: Any) -> Any:
    """Return the text of a secret, and any other value as it is."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value
