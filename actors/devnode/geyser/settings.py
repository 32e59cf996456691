"""What the stream is told at start.

Pure. Not here: the ranges, which are checked with those of the node (devnode's settings.py).
"""

from dataclasses import dataclass
from pathlib import Path

from actors.devnode.geyser.limits import NO_LIMITS, FilterLimits
from actors.devnode.geyser.slot_logs import REPLAY_SLOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class GeyserSettings:
    """port, tls_port None: the usual one (TLS: one above the other), or a free one where that is taken."""

    port: int | None = None
    tls_port: int | None = None
    tls_cert: Path | None = None  # With tls_key; without both, one of its own is made.
    tls_key: Path | None = None
    token: str | None = None  # What every call must carry; None: nothing.
    replay_slots: int = REPLAY_SLOTS
    limits: FilterLimits = NO_LIMITS
