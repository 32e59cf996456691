"""Decides when a replica is cut off: neither the ledger nor Redis has answered it for some seconds.

Implements: launch/README.md, "When something dies". Pure. The stores and the owners have machines of their own, and a
store that fails leaves the other one: who reaches none of them has lost its link, and the cluster gives its machine up.
Its clients may not notice, as nothing reaches them: when the link is back, they would use sockets of a replica that
refuses their calls until Ray ends it, which took 30 s.
"""

from actors.status.core import Services

CUT_OFF_SECONDS = 10.0  # Longer than an owner needs to start elsewhere, or than Redis to start again.


class Isolation:
    def __init__(self) -> None:
        self._alone_since: float | None = None
        self._is_told = False

    def looked(self, services: Services, now_seconds: float) -> bool:
        """Record one look at the stores. Returns True once for each time that the replica is cut off."""
        if services.ledger_committing or services.redis_reachable:
            self._alone_since, self._is_told = None, False
            return False
        if self._alone_since is None:
            self._alone_since = now_seconds
        if self._is_told or now_seconds - self._alone_since < CUT_OFF_SECONDS:
            return False
        self._is_told = True
        return True
