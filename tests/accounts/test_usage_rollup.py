"""The owner keeps the rollup of usage near the ledger, by itself."""

import pytest

from actors.accounts.account import Account
from actors.accounts.store import StoreUnavailable
from actors.accounts.usage_rollup import BEHIND_ENTRIES, UsageRollup
from actors.accounts.usage_store import Rolled
from actors.clock import ManualClock
from tests.accounts.making import ALICE, BOB, opened

CAROL = b"c" * 32


class Ledger:
    """A store that has so many entries of each account. away: so many of the coming requests fail. damaged: an account
    whose requests all fail."""

    def __init__(self, entries: dict[bytes, int]) -> None:
        self.entries, self.rolled, self.asked, self.away = entries, dict.fromkeys(entries, 0), 0, 0
        self.damaged = b""

    async def read(self, pubkey: bytes, first_hour: int, end_hour: int, by: tuple[str, ...]) -> list[object]:
        raise AssertionError("nobody reads here")

    async def roll(self, pubkey: bytes, entries_max: int) -> Rolled:
        self.asked += 1
        if pubkey == self.damaged:
            raise StoreUnavailable("a refund without its debit")
        if self.away:
            self.away -= 1
            raise StoreUnavailable("nobody listens")
        before = self.rolled[pubkey]
        self.rolled[pubkey] = min(self.entries[pubkey], before + entries_max)
        return Rolled(self.rolled[pubkey] - before, self.rolled[pubkey])


def in_memory(entries: dict[bytes, int]) -> dict[bytes, Account]:
    accounts = {pubkey: opened(pubkey) for pubkey in entries}
    for pubkey, account in accounts.items():
        account.seq = entries[pubkey]
    return accounts


@pytest.mark.parametrize("away", [0, 1, 5])
async def test_accounts_that_fall_behind_are_rolled_up_in_bounded_steps(away: int) -> None:
    """A tick does a bounded part; a busy account is caught up over the next ones; one that is hardly behind waits; a
    database that is away delays it and loses nothing."""
    clock = ManualClock()
    ledger = Ledger({ALICE: 95_000, BOB: BEHIND_ENTRIES - 1, CAROL: BEHIND_ENTRIES})
    ledger.away = away
    rollup = UsageRollup(ledger, clock, in_memory(ledger.entries))  # type: ignore[arg-type]
    for _ in range(10 * (away + 1)):
        before = dict(ledger.rolled)
        await rollup.tick()
        assert sum(ledger.rolled.values()) - sum(before.values()) <= 25_000
        clock.advance(1)
    for _ in range(10):
        await rollup.tick()
        clock.advance(1)
    assert ledger.rolled == {ALICE: 95_000, BOB: 0, CAROL: BEHIND_ENTRIES}
    asked = ledger.asked
    for _ in range(60):
        clock.advance(1)
        await rollup.tick()
    assert ledger.asked == asked  # Nobody is behind, so nothing is asked.


async def test_an_account_that_cannot_be_rolled_up_holds_up_nobody_else() -> None:
    """Threat 20: the damage of one account is its own."""
    clock = ManualClock()
    ledger = Ledger({ALICE: 1_000, BOB: 1_000, CAROL: 1_000})
    ledger.damaged = ALICE
    rollup = UsageRollup(ledger, clock, in_memory(ledger.entries))  # type: ignore[arg-type]
    for _ in range(30):
        await rollup.tick()
        clock.advance(1)
    assert ledger.rolled == {ALICE: 0, BOB: 1_000, CAROL: 1_000}
