"""Decides which calls begin: holds credits for each that fits rate, concurrency, credits, named key and hourly limit.

Implements: money rules 1 and 3; design, "One billed call" step 3; interface, "Limits" and "Errors"; decisions, "Named
keys" and "Hourly limit". Pure. Before each decision the caller ends the holds and batches past their time (core.py).
"""

import msgspec

from actors.accounts.account import ACTIVE, Account, Admitted, Moment, Withdrawn
from actors.accounts.named_keys import (
    DAY_MS,
    NO_PATH,
    UNLIMITED,
    Path,
    may_call,
    may_use,
    number_of,
    rate_limit_of,
    room_of,
    units_left_of,
)
from actors.accounts.rate_window import reset_at
from actors.calls import (
    OTHER_PRICES,
    Figures,
    HoldItem,
    HoldRequest,
    KeyProof,
    Proof,
    ProvenProof,
    is_allowance,
    operation_at,
)
from actors.errors import Err

# Remembered answers to wholly refused requests, per account. Judging a forgotten one again costs nothing.
ANSWERS_MAX = 4_096

_RATE, _SLOTS, _CREDITS = Err.RATE_LIMITED.name, Err.CONCURRENCY_LIMITED.name, Err.INSUFFICIENT_CREDITS.name
_BUDGET, _METHOD = Err.KEY_BUDGET_EXCEEDED.name, Err.METHOD_NOT_ALLOWED.name
_HOUR = Err.HOURLY_LIMIT_EXCEEDED.name


class Admission(msgspec.Struct, frozen=True, gc=False):
    refusal: str | None  # Name of an Err that refuses the whole request, or None.
    verdicts: tuple[str | None, ...]
    event: Admitted | None  # None: nothing changes.
    path: Path = NO_PATH  # Path of the named key that was presented.
    stopped: bool = False  # True: the hourly limit refused an item.


def decide_hold(account: Account, request: HoldRequest, moment: Moment, needs_slot: bool = True) -> Admission:
    """Hold credits for each item, in order, that fits rate, concurrency and credits; refuse the others.

    A repeated operation gets its first answer, and no event. A refused item takes neither unit, slot nor credits. An
    item with ceiling 0 takes a unit, unless it says otherwise, and no slot, because it has no end to wait for. A
    request without items uses its credential and tells the figures. Ceilings of another price list than the account's
    are refused with OTHER_PRICES, and change nothing. nonces.py has judged the credential's nonce before. needs_slot
    False: the holds end in this turn, so they need no slot.
    """
    items = request.items
    operation = request.operation
    path = presented(account, request.proof, moment) if account.keys.by_number else NO_PATH
    if path is None:
        return Admission(Err.AUTH_FAILED.name, (), None)
    earlier = account.answers.get(operation)
    if earlier is not None:
        return Admission(None, earlier, None, path)
    if operation in account.holds or account.operations.get(operation) is not None:
        # Granted whole; a refused answer would have been remembered.
        return Admission(None, (None,) * len(items), None, path)
    if account.profile.status != ACTIVE:
        return Admission(Err.METHOD_NOT_ALLOWED.name, (), None, path)
    if request.price_list != account.price_list and request.price_list is not None:
        return Admission(OTHER_PRICES, (), None, path)
    return _judge_items(account, operation, items, moment, path, slots_left_of(account) if needs_slot else len(items))


def slots_left_of(account: Account) -> int:
    """Return how many calls more may be in flight; below zero where the limit was lowered meanwhile."""
    return account.concurrency_limit - len(account.holds) + account.work_holds


def hour_left_of(account: Account, moment: Moment) -> int | None:
    """Return the credits that the hourly limit leaves. None: no limit is in force."""
    hourly = account.hourly
    if hourly.credits >= UNLIMITED:
        return None
    return hourly.left(account.total_consumed, account.purse.held, moment.wall_ms // 1000)


def presented(account: Account, proof: Proof, moment: Moment) -> Path | None:
    """Return the path of the named key that this proof presents: the key, and the keys it was made from.

    Empty: the proof presents no named key. None: the key is invalid, or not allowed from this address."""
    if not account.keys:
        return NO_PATH
    if type(proof) is KeyProof:
        if proof.key_hash == account.profile.key_hash:
            return NO_PATH
        key = account.keys.by_hash.get(proof.key_hash)
        path = NO_PATH if key is None else account.keys.path(key.profile.number)
    elif type(proof) is ProvenProof and proof.key:
        path = account.keys.path(proof.key)
    else:
        return NO_PATH
    return path if path and may_use(path, proof, moment.wall_ms // 1000) else None


def _judge_items(
    account: Account, operation: bytes, items: tuple[HoldItem, ...], moment: Moment, path: Path, slots_left: int
) -> Admission:
    second = moment.wall_ms // 1000
    limit, hour_left = account.rate_limit, hour_left_of(account, moment)
    if hour_left is None:
        hour_left = UNLIMITED
    else:
        limit = account.hourly.rate(limit, account.total_consumed, second)
    units_left = account.window.left(second, limit)
    budget = UNLIMITED
    if path:
        units_left = min(units_left, units_left_of(path, second))
        budget = room_of(path, moment.wall_ms // DAY_MS)
    available: int = account.purse.balance - account.purse.held
    if is_allowance(operation):
        return _judge_allowance(account, operation, items, available, hour_left, moment, path)
    units = 0
    verdicts: list[str | None] = []
    held: list[tuple[bytes, int]] = []
    for index, item in enumerate(items):
        ceiling = item.ceiling
        if path and not may_call(path, item.method):
            verdicts.append(_METHOD)
        elif units >= units_left:
            verdicts.append(_RATE)
        elif ceiling <= 0:
            assert ceiling == 0, item
            verdicts.append(None)
            units += item.takes_unit
        elif len(held) >= slots_left:
            verdicts.append(_SLOTS)
        elif ceiling > budget:
            verdicts.append(_BUDGET)
        elif ceiling > hour_left:
            verdicts.append(_HOUR)
        elif ceiling > available:
            verdicts.append(_CREDITS)
        else:
            verdicts.append(None)
            held.append((operation_at(operation, index) if index else operation, ceiling))
            available -= ceiling
            budget -= ceiling
            hour_left -= ceiling
            units += 1
    judged = tuple(verdicts)
    stopped = _HOUR in judged
    answer = None
    if len(held) != len(items) or not items:  # The holds alone cannot reproduce this answer.
        answer = judged if units or len(account.answers) < ANSWERS_MAX else None
    if not units and answer is None:
        return Admission(None, judged, None, path, stopped)
    expires_at = moment.steady + account.defaults.hold_seconds
    key = number_of(path) if path else 0
    event = Admitted(operation, moment.steady, second, units, tuple(held), expires_at, answer, False, key)
    return Admission(None, judged, event, path, stopped)


def _judge_allowance(
    account: Account,
    operation: bytes,
    items: tuple[HoldItem, ...],
    available: int,
    hour_left: int,
    moment: Moment,
    path: Path,
) -> Admission:
    """Hold credits ahead for an open stream. Only the credits limit it; it takes no rate unit."""
    (item,) = items
    refusal = None
    if path and not may_call(path, item.method):
        refusal = _METHOD
    elif path and item.ceiling > room_of(path, moment.wall_ms // DAY_MS):
        refusal = _BUDGET
    elif item.ceiling > hour_left:
        refusal = _HOUR
    elif item.ceiling > available:
        refusal = _CREDITS
    if refusal is not None:
        return Admission(None, (refusal,), None, path, refusal == _HOUR)
    expires_at = moment.steady + account.defaults.hold_seconds
    held = ((operation, item.ceiling),)
    event = Admitted(operation, moment.steady, moment.wall_ms // 1000, 0, held, expires_at, None, key=number_of(path))
    return Admission(None, (None,), event, path)


def decide_withdrawal(event: Admitted) -> Withdrawn:
    """Release the holds of an admission whose nonce could not be written."""
    return Withdrawn(event.operation, event.held)


def figures(account: Account, moment: Moment, path: Path = NO_PATH) -> Figures:
    """Return the figures that a response tells.

    path: of the named key that asks; it is told its own limits where they are narrower than the account's.
    """
    second = moment.wall_ms // 1000
    limit = account.rate_limit
    if account.hourly.credits < UNLIMITED:
        limit = account.hourly.rate(limit, account.total_consumed, second)
    left = account.window.left(second, limit)
    available: int = account.purse.balance - account.purse.held
    if path:
        limit, left = rate_limit_of(path, limit), min(left, units_left_of(path, second))
        available = credits_left(account, moment, path)
    return Figures(available, limit, left, reset_at(second))


def credits_left(account: Account, moment: Moment, path: Path) -> int:
    """Return the credits that may be held now; for a named key, at most what its budgets leave."""
    available: int = account.purse.balance - account.purse.held
    return min(available, room_of(path, moment.wall_ms // DAY_MS)) if path else available
