"""Limits the bytes of free answers that one client address, or one account, is given in a second.

Implements: threat 60. Pure: time is an argument.

Some answers need no credential and are large: the list of tools of /mcp, the documents of GET. A request of 60 bytes
for one of them makes an answer of 54 kB, so their bytes are limited, as no credit and no refusal limits them. An
address that has used up its bytes still gets answers under a credential that an owner has confirmed to this replica;
they count for that account. Each replica counts for itself. Clients whose address cannot be known share sixteen times
as much, which bounds a replica all the same.

What happens when full: names that have all their bytes again are forgotten; beyond NAMES_MAX, all names are.
"""

from actors.identity.client_addresses import UNKNOWN

BYTES_PER_SECOND = 1 << 20
BURST_BYTES = 8 << 20  # 150 tool lists at once, as when many agents start together.
NAMES_MAX = 20_000
_UNKNOWN_SHARE = 16


class FreeAnswers:
    def __init__(self, per_second: int = BYTES_PER_SECOND, burst: int = BURST_BYTES) -> None:
        self._per_second, self._burst = per_second, burst
        self._used: dict[bytes | str, tuple[float, float]] = {}  # By name: bytes, and when they were counted.

    def take(self, name: bytes | str, size: int, now: float) -> int | None:
        """Count an answer of so many bytes. None: it may leave; else the whole seconds after which it may.

        now: monotonic seconds. An answer larger than a burst may leave when nothing else was given before it.
        """
        share = _UNKNOWN_SHARE if name == UNKNOWN else 1
        per_second, burst = self._per_second * share, self._burst * share
        used = self._used_by(name, per_second, now)
        over = used + size - burst
        if over > 0 and used > 0:
            return int(min(over, used) / per_second) + 1
        if name not in self._used and len(self._used) >= NAMES_MAX:
            self._forget(now)
        self._used[name] = (used + size, now)
        return None

    def _used_by(self, name: bytes | str, per_second: int, now: float) -> float:
        used, at = self._used.get(name, (0.0, now))
        return max(0.0, used - max(0.0, now - at) * per_second)

    def _forget(self, now: float) -> None:
        self._used = {name: use for name, use in self._used.items() if self._used_by(name, self._per_second, now)}
        if len(self._used) >= NAMES_MAX:
            self._used.clear()
