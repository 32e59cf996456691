"""The settings of the gRPC stream.

Pure. Not here: the ranges, which devnode's settings.py checks.
"""

from dataclasses import dataclass
from pathlib import Path

from devnode.geyser.limits import NO_LIMITS, FilterLimits
from devnode.geyser.slot_logs import REPLAY_SLOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class GeyserSettings:
    """port and tls_port None: the default port (TLS: one above the other), or a free port if it is taken."""

    port: int | None = None
    tls_port: int | None = None
    tls_cert: Path | None = None  # Together with tls_key; without both, the node makes its own certificate.
    tls_key: Path | None = None
    token: str | None = None  # The token that every call must carry; None: no token.
    replay_slots: int = REPLAY_SLOTS
    limits: FilterLimits = NO_LIMITS
