"""Credits of one account: batches with an expiry, and what is set aside for work in flight.

Implements: interface, "Account"; decisions, "element of `credit_batches`" and money rules 1, 3 and 7.
Pure: no clock, no I/O, no randomness; times arrive as Unix seconds.
Not here: which call holds what (core.py), request rates (account.py), storage (store.py).

`plan_*` decides which batches change, `move` changes them. Choices where the interface is silent:
- A batch can be spent until its expiry is in the ledger.
- Holds are covered by the oldest batches first, as a post would take them. Expiry leaves in the expired batches what
  live holds need of them; that part is spent by them, or expires when they end. Younger batches are not touched.
- A fully spent batch is removed from the list. A refund brings it back.
- Refunded credits go back to the batches they came from and keep those expiry dates. Where such a batch has expired, or
  has less than REFUND_GRACE_SECONDS left, its credits make a fresh batch of source `adjustment` that lasts so long.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum, unique

from actors.units import Credits, UnixSeconds


@unique
class Source(StrEnum):
    DEPOSIT = "deposit"
    REFERRAL_BONUS = "referral_bonus"
    ADJUSTMENT = "adjustment"


@dataclass(slots=True)
class Batch:
    id: int  # Numbered from 1 within the account, in order of creation.
    source: Source
    credits: Credits  # Credits at creation.
    remaining: Credits
    created_at: UnixSeconds
    expires_at: UnixSeconds


REFUND_GRACE_SECONDS = 3_600  # Enough to notice that a call failed and to repeat it; not a new life for old credits.
SPENT_MAX = 32  # Spent batches remembered per account, for refunds; older ones are read from the store.

# Batches of one account in an answer: an account can have thousands of one cent each, and each takes microseconds.
BATCHES_TOLD_MAX = 500

Move = tuple[int, int, int]  # Batch id, signed credits, and what the batch has left afterwards.
Moves = tuple[Move, ...]
_NONE = Credits(0)


@dataclass(slots=True)
class Purse:
    balance: Credits = _NONE
    held: Credits = _NONE  # Sum of the ceilings of all live holds.
    batches: list[Batch] = field(default_factory=list)  # Ordered by expiry; no batch is empty.
    last_batch: int = 0
    # Recently spent batches, by id: a refund may give them credits again.
    spent: dict[int, Batch] = field(default_factory=dict, compare=False)

    @property
    def available(self) -> Credits:
        return Credits(self.balance - self.held)

    def check(self) -> None:
        assert self.held >= 0, self
        assert self.balance >= self.held, self
        assert self.balance == sum(batch.remaining for batch in self.batches), self
        assert all(0 < batch.remaining <= batch.credits for batch in self.batches), self
        assert self.batches == sorted(self.batches, key=_spending_order), self


def _spending_order(batch: Batch) -> tuple[int, int]:
    return batch.expires_at, batch.id


def plan_spend(purse: Purse, amount: int) -> Moves:
    """Plan to spend `amount` (above 0, at most the balance), from the oldest expiry on."""
    assert 0 < amount <= purse.balance, (amount, purse.balance)
    first = purse.batches[0]
    if first.remaining >= amount:
        return ((first.id, -amount, first.remaining - amount),)
    moves: list[Move] = []
    for batch in purse.batches:
        taken = min(amount, batch.remaining)
        moves.append((batch.id, -taken, batch.remaining - taken))
        amount -= taken
        if amount == 0:
            break
    assert amount == 0, purse  # The batches add up to the balance, or nothing may be charged.
    return tuple(moves)


def plan_expiry(purse: Purse, now: int) -> Moves:
    """Return the credits that expire now: all past their time, less those that live holds need, oldest first."""
    moves: list[Move] = []
    expired = [batch for batch in purse.batches if batch.expires_at <= now]
    budget = sum(batch.remaining for batch in expired) - purse.held
    for batch in expired:
        if budget <= 0:
            break
        taken = min(budget, batch.remaining)
        moves.append((batch.id, -taken, batch.remaining - taken))
        budget -= taken
    return tuple(moves)


def plan_grant(purse: Purse, source: Source, amount: int, now: int, life_seconds: int) -> tuple[Moves, Batch]:
    """Plan a new batch of `amount` (above 0)."""
    assert amount > 0, amount
    assert life_seconds > 0, life_seconds
    number = purse.last_batch + 1
    fresh = Batch(number, source, Credits(amount), Credits(amount), UnixSeconds(now), UnixSeconds(now + life_seconds))
    return ((number, amount, amount),), fresh


def unknown_batches(purse: Purse, parcels: str) -> list[int]:
    """Return the ids of the batches in these parcels that are not in memory; a refund must read them from the store
    first."""
    living = {batch.id for batch in purse.batches}
    return [number for number, _ in read_parcels(parcels) if number not in living and number not in purse.spent]


def plan_refund(purse: Purse, spent: str, now: int) -> tuple[Moves, Batch | None]:
    """Plan to give back what an entry with these parcels took. Returns the moves, and a new batch where one is needed.

    A batch that is not among the spent ones either counts as expired; `unknown_batches` names it beforehand.
    """
    batches = purse.spent | {batch.id: batch for batch in purse.batches}
    moves: list[Move] = []
    homeless = 0
    for number, delta in read_parcels(spent):
        assert delta < 0, spent
        batch = batches.get(number)
        if batch is None or batch.expires_at < now + REFUND_GRACE_SECONDS:
            homeless -= delta
        else:
            moves.append((number, -delta, batch.remaining - delta))
    if homeless == 0:
        return tuple(moves), None
    more, fresh = plan_grant(purse, Source.ADJUSTMENT, homeless, now, REFUND_GRACE_SECONDS)
    return (*moves, *more), fresh


def move(purse: Purse, moves: Moves, fresh: Batch | None) -> int:
    """Apply the moves; the only code that changes batches and the balance. Returns the signed sum."""
    if fresh is not None:
        assert fresh.id == purse.last_batch + 1, (fresh, purse.last_batch)
        purse.last_batch = fresh.id
        # A copy without credits: the move that names it fills it, and the event stays as it was decided.
        empty = Batch(fresh.id, fresh.source, fresh.credits, Credits(0), fresh.created_at, fresh.expires_at)
        insort(purse.batches, empty, key=_spending_order)
    total = 0
    for number, delta, remaining in moves:
        batch = purse.batches[0] if purse.batches else None
        if batch is None or batch.id != number:
            batch = next((row for row in purse.batches if row.id == number), None) or _revive(purse, number)
        batch.remaining = Credits(batch.remaining + delta)
        assert batch.remaining == remaining, (batch, delta, remaining)
        assert 0 <= remaining <= batch.credits, (batch, delta)
        if remaining == 0:
            purse.batches.remove(batch)
            purse.spent[number] = batch
            while len(purse.spent) > SPENT_MAX:
                del purse.spent[next(iter(purse.spent))]
        total += delta
    purse.balance = Credits(purse.balance + total)
    assert purse.balance >= purse.held, purse
    return total


def _revive(purse: Purse, number: int) -> Batch:
    batch = purse.spent.pop(number)
    insort(purse.batches, batch, key=_spending_order)
    return batch


def remember_spent(purse: Purse, batches: Iterable[Batch]) -> None:
    """Remember spent batches read from the store, where they are not in memory. Only their dates count."""
    living = {batch.id for batch in purse.batches}
    for batch in batches:
        if batch.id not in living:
            spent = Batch(batch.id, batch.source, batch.credits, Credits(0), batch.created_at, batch.expires_at)
            purse.spent.setdefault(batch.id, spent)


def write_parcels(moves: Moves) -> str:
    """Return the moves in the text form that an entry keeps: `3:-25 4:10`."""
    if len(moves) == 1:
        return f"{moves[0][0]}:{moves[0][1]}"
    return " ".join(f"{number}:{delta}" for number, delta, _ in moves)


def read_parcels(text: str) -> tuple[tuple[int, int], ...]:
    pairs = (part.split(":") for part in text.split())
    return tuple((int(number), int(delta)) for number, delta in pairs)
