"""Limits how many WebSocket handshakes one account, or one client address, may make in a second in this process.

Implements: decisions, "WebSocket refusals" (a flood is refused with HTTP); threat 59. Pure: time is an argument.
A handshake takes about half a millisecond of the loop and is free, so nothing else bounds it. Fixed windows of one
second. When full: accounts and addresses beyond NAMES_MAX in one second are not counted.
"""

from actors.identity.client_addresses import allowances

NAMES_MAX = 20_000


class HandshakeLimits:
    def __init__(self, per_account: int, per_address: int) -> None:
        self._per_account, self._per_address = per_account, per_address
        self._counts: dict[bytes | str, int] = {}
        self._second = 0

    def admits_address(self, name: str, now: int) -> bool:
        """Count a handshake of a client address. name: from AddressLimits; UNKNOWN has no limit."""
        return all(self._add(one, self._per_address * share, now) for one, share in allowances(name))

    def admits_account(self, pubkey: bytes, now: int) -> bool:
        """Count a handshake under a credential that the account's owner has confirmed."""
        return self._add(pubkey, self._per_account, now)

    def _add(self, name: bytes | str, limit: int, now: int) -> bool:
        if now != self._second:
            self._second = now
            self._counts.clear()
        count = self._counts.get(name, 0) + 1
        if name in self._counts or len(self._counts) < NAMES_MAX:
            self._counts[name] = count
        return count <= limit
