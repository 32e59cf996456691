"""Selects the watched wallets of signal webhooks: those of accounts that hold places for them.

Implements: threat 68; decisions, "watched wallets". Pure. An account that is paused for WALLETS_PAUSED_MS gives its
places back, and others may take them. When it pays again, its wallets wait until places are free as for a newcomer: so
the wallets that are watched are never more than there are places, and the part that is kept stays for newcomers.
"""

from collections.abc import Mapping

from actors.place_shares import PlaceShares

# Signals are reported for 15,000 wallets at most; the others are for subscriptions.
WALLETS = PlaceShares(total=5_000, kept=1_000, base=10, of_one_max=500)
WALLETS_PAUSED_MS = 600_000  # How long an account without credits keeps its places.


class WatchedWallets:
    def __init__(self, shares: PlaceShares = WALLETS) -> None:
        self._shares = shares
        self._holders: set[bytes] | None = None  # None: not read yet.

    def is_holder(self, account: bytes) -> bool:
        return self._holders is not None and account in self._holders

    def of(self, named: Mapping[bytes, frozenset[str]]) -> frozenset[str]:
        """Give places to accounts that wait and fit, those with the fewest wallets first, and return what is watched.

        named: the wallets of each account that is not paused for long. After a start all may take what is there, since
        nobody knows who had waited.
        """
        kept = 0 if self._holders is None else self._shares.kept
        holders = self._holders = (self._holders or set()) & named.keys()
        taken = frozenset[str]().union(*(named[account] for account in holders))
        for account in sorted(named.keys() - holders, key=lambda each: (len(named[each]), each)):
            after = taken | named[account]
            most = self._shares.total - (kept if len(named[account]) > self._shares.base else 0)
            if len(after) <= most:
                holders.add(account)
                taken = after
        return taken
