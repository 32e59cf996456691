"""Decides about holds for background work, which no call waits for: held before the work begins, released if it fails.

Implements: money rules 1 and 3. Pure. Such a hold takes neither a unit of the rate nor a slot of the concurrency: the
work is not begun by the account's clients. Its charge is decided as every other (core.decide_settle).
"""

from collections.abc import Sequence

from actors.accounts.account import Account, Admitted, Event, HoldEnded, Moment
from actors.accounts.ends import End


def decide_work(
    account: Account, operations: Sequence[bytes], credits_each: int, moment: Moment
) -> tuple[tuple[bool, ...], tuple[Event, ...]]:
    """Decide for each operation, in order, whether its work may begin, and make the holds.

    The caller has recalled what the store knows of the operations. Work that was charged before costs nothing more, but
    the balance must cover it: accounts that cannot pay get no work. A live hold is renewed for its whole time.
    """
    purse, second = account.purse, moment.wall_ms // 1000
    available = min(int(purse.available), account.hourly.left(account.total_consumed, int(purse.held), second))
    verdicts: list[bool] = []
    ended: dict[bytes, HoldEnded] = {}
    held: dict[bytes, int] = {}
    for operation in operations:
        before, hold = account.operations.get(operation), account.holds.get(operation)
        if before is not None or operation in held:
            verdicts.append(operation in held or (before is not None and _is_paid(account, before.end, credits_each)))
            continue
        free = available + (0 if hold is None else hold.ceiling)
        verdicts.append(credits_each <= free)
        if credits_each <= free:
            available = free - credits_each
            held[operation] = credits_each
            if hold is not None:
                ended[operation] = HoldEnded(operation, moment.steady, expired=True)
    if not held:
        return tuple(verdicts), ()
    expires_at = moment.steady + account.defaults.hold_seconds
    made = Admitted(next(iter(held)), moment.steady, second, 0, tuple(held.items()), expires_at, None, is_work=True)
    return tuple(verdicts), (*ended.values(), made)


def _is_paid(account: Account, end: End, credits_each: int) -> bool:
    return end is End.POSTED and account.purse.balance >= credits_each


def decide_release(account: Account, operations: Sequence[bytes], moment: Moment) -> tuple[HoldEnded, ...]:
    """End these holds without a charge, as an expiry does: the same work may begin again, or be charged."""
    live = dict.fromkeys(operation for operation in operations if operation in account.holds)
    return tuple(HoldEnded(operation, moment.steady, expired=True) for operation in live)
