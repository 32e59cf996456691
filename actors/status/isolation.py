"""Decides when a replica is cut off from the cluster.

Implements: launch/README.md, "What survives which failure". Pure. The two stores and the owners have machines of their
own. Who reaches neither store, and no owner on another machine, has lost its link, and the cluster gives its machine
up. Its clients may not notice, as nothing reaches them: when the link is back, they would use sockets of a replica that
refuses their calls until Ray ends it, which took 30 s. Where the stores are down, owners elsewhere still answer, and
streams wait for the stores.
"""

from actors.status.core import Services

CUT_OFF_SECONDS = 10.0  # Longer than an owner needs to start elsewhere.


class Isolation:
    def __init__(self) -> None:
        self._alone_since: float | None = None
        self._is_told = False

    def looked(self, services: Services, reaches_others: bool, now_seconds: float) -> bool:
        """Record one look at the stores, and at the owners on other machines. Returns True once for each time that the
        replica is cut off."""
        if services.ledger_committing or services.redis_reachable or reaches_others:
            self._alone_since, self._is_told = None, False
            return False
        if self._alone_since is None:
            self._alone_since = now_seconds
        if self._is_told or now_seconds - self._alone_since < CUT_OFF_SECONDS:
            return False
        self._is_told = True
        return True
