"""Decides how many replicas a machine runs, whether one is a spare, and whether their number follows their
load. Pure."""

from actors.config import GatewayConfig

REPLICAS_PER_CORE_MAX = 10  # Ray places so many on a core, and no more: each has a tenth of it.


def replicas_on(cores: int, config: GatewayConfig) -> int:
    """Return the number of replicas on a machine with this many cores.

    At full load a replica uses one core, and the account owners, HAProxy and PostgreSQL another. At least two, because
    after a kill of the only one nothing answers until another has started (8 to 18 s).
    """
    return config.replicas or max(2, cores // 2)


def has_spare_on(cores: int, config: GatewayConfig) -> bool:
    """Return whether the second of two replicas gets no calls while the first one is alive.

    More replicas send smaller frames: on two cores, two replicas took a seventh more processor time for each call than
    one. A spare takes 190 MB and a fiftieth of a core, and adds no time to a call.
    """
    return config.replicas is None and config.replicas_max is None and cores // 2 < 2


def range_on(cores: int, config: GatewayConfig) -> tuple[int, int] | None:
    """Return the least and the largest number of replicas. None: the number is fixed (replicas_on)."""
    if config.replicas_max is None:
        return None
    return min(replicas_on(cores, config), config.replicas_max), config.replicas_max


def room_on(cores: int) -> int:
    """Return how many replicas Ray starts on a machine with this many cores; further ones would wait for ever."""
    return cores * REPLICAS_PER_CORE_MAX
