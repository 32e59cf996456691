"""Decides about one account: post, release, void, adjust, expire. admission.py decides which calls begin.

Implements: money rules 1, 3 and 6; design, "One billed call" step 6.
Pure: every function reads the account and returns events; account.apply changes the account by them. Before each
decision the caller ends the holds and batches past their time: `is_due`, `decide_hold_expiry`, `decide_credit_expiry`,
in that order.
"""

import msgspec

from actors.accounts.account import (
    Account,
    Deposit,
    Event,
    Hold,
    HoldEnded,
    Mark,
    MarkKind,
    Moment,
    Moved,
    Profile,
    ProfileSet,
    Recalled,
    Return,
    adjust_key,
)
from actors.accounts.admission import credits_left
from actors.accounts.credits import (
    Batch,
    Moves,
    Source,
    plan_expiry,
    plan_grant,
    plan_refund,
    plan_spend,
    read_parcels,
    unknown_batches,
    write_parcels,
)
from actors.accounts.ends import VOIDED, End, posted_by
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.stored import Past
from actors.calls import Outcome, SettleRequest, is_lasting, with_key

ADJUSTMENT_MAX = 10**15  # Ten billion USDC at the default price: a larger amount is a typing mistake of the operator.


Limit = int | msgspec.UnsetType | None  # Limit of an account. None: the default; UNSET: unchanged.


class Settlement(msgspec.Struct, frozen=True, gc=False):
    ok: bool | None  # None: memory does not know enough; ask the store (`decide_recall`), then decide again.
    event: Event | None = None


_OK, _REFUSED, _ASK_STORE = Settlement(True), Settlement(False), Settlement(None)


# --- expiry -------------------------------------------------------------------------------------------------------


def is_due(account: Account, moment: Moment) -> bool:
    """Return whether a hold or a batch is past its time. Cheap, because it runs before every decision."""
    for hold in account.holds.values():
        if hold.expires_at <= moment.steady:
            return True
        break
    batches = account.purse.batches
    return bool(batches) and batches[0].expires_at * 1000 <= moment.wall_ms


def decide_hold_expiry(account: Account, moment: Moment) -> tuple[HoldEnded, ...]:
    ended: list[HoldEnded] = []
    for operation, hold in account.holds.items():
        if hold.expires_at > moment.steady:
            break  # Every hold lasts equally long, so the rest are younger.
        ended.append(HoldEnded(operation, moment.steady, expired=True))
    return tuple(ended)


def decide_replica_gone(account: Account, replica: bytes, moment: Moment) -> tuple[HoldEnded, ...]:
    """End every hold of a dead replica, as an expiry does: nothing else would end them.

    If the replica comes back and settles one of them, replicas.py refuses the settle.
    """
    held = [operation for operation in account.holds if operation.startswith(replica)]
    return tuple(HoldEnded(operation, moment.steady, expired=True) for operation in held)


def decide_credit_expiry(account: Account, moment: Moment, agreed_ms: int | None) -> tuple[Moved, ...]:
    """Decide which batches expire.

    agreed_ms: the time on which the clocks agree (ledger_time.py). None: nothing expires, because an expiry cannot be
    undone; expired credits can be spent until then."""
    if agreed_ms is None:
        return ()
    moves = plan_expiry(account.purse, agreed_ms // 1000)
    if not moves:
        return ()
    return (moved(account, moment, EntryType.EXPIRY, moves, description="credits past their expiry date"),)


# --- the end of a hold --------------------------------------------------------------------------------------------


def decide_settle(account: Account, request: SettleRequest, moment: Moment, asked_store: bool = False) -> Settlement:
    """Post (charged above 0) or release. Idempotent: an ended operation gives its first answer again.

    A hold that this owner does not know (a predecessor granted it, or it expired) is posted under three conditions: the
    store says that its operation was never posted or voided, it is recent (`memory_seconds`), and the available
    credits, and the budgets of its named key, cover it. Otherwise nothing is charged and the answer must not leave.
    Whether an operation was posted before depends on no clock: the store keeps every operation for ever, and refuses to
    write a second debit of one.
    """
    operation, charged = request.operation, request.charged
    hold = account.holds.get(operation)
    key = request.key if hold is None else hold.key
    if hold is None:
        ended = account.operations.get(operation)
        if ended is not None:
            return _settle_again(account, request, ended.end, moment, asked_store)
        if charged == 0:
            return _OK
        if not asked_store:
            return _ASK_STORE
        if moment.wall_ms // 1000 - request.held_at > account.defaults.memory_seconds:
            return _REFUSED
        path = account.keys.path(key)
        if key and not path:
            return _REFUSED  # The key's number never became durable, so its budget could not be enforced.
        if not 0 < charged <= request.ceiling or charged > credits_left(account, moment, path):
            return _REFUSED
    elif charged == 0:
        return Settlement(True, HoldEnded(operation, moment.steady))
    elif not 0 < charged <= hold.ceiling and not _is_priced_anew(account, hold, request, moment):
        return _REFUSED  # A replica that charges more than its hold is broken; the customer does not pay.
    moves = plan_spend(account.purse, charged)
    description = with_key(request.evidence, key) if key else request.evidence
    what = operation, request.method, request.outcome, description
    return Settlement(True, moved(account, moment, EntryType.DEBIT, moves, *what, key=key))


def _is_priced_anew(account: Account, hold: Hold, request: SettleRequest, moment: Moment) -> bool:
    """Whether a call under an Idempotency-Key was run again after its account had got a dearer price list, while the
    hold of its first run is here. It costs what the second run said, if the credits left cover the rest."""
    if not is_lasting(request.operation) or not hold.ceiling < request.charged <= request.ceiling:
        return False
    path = account.keys.path(hold.key)
    if hold.key and not path:
        return False
    return request.charged - hold.ceiling <= credits_left(account, moment, path)


def _settle_again(account: Account, request: SettleRequest, end: End, moment: Moment, asked_store: bool) -> Settlement:
    if end is End.POSTED and request.charged == 0:
        return decide_void(account, request, moment, asked_store)  # It was posted before, and must now cost nothing.
    return _OK if (end is End.POSTED) == (request.charged > 0) else _REFUSED


def decide_void(account: Account, request: SettleRequest, moment: Moment, asked_store: bool = False) -> Settlement:
    """End an operation so that it costs nothing: release its hold, or refund its post once. An unknown operation is
    marked, so that this owner and its successors refuse a late settle of it."""
    operation = request.operation
    ended = account.operations.get(operation)
    if operation in account.holds:
        return Settlement(True, HoldEnded(operation, moment.steady, mark=make_mark(MarkKind.VOID, operation, moment)))
    if ended is None:
        if not asked_store:
            return _ASK_STORE
        return Settlement(True, HoldEnded(operation, moment.steady, mark=make_mark(MarkKind.VOID, operation, moment)))
    if ended.end is not End.POSTED:
        return _OK
    if not asked_store and unknown_batches(account.purse, ended.parcels):
        return _ASK_STORE
    moves, fresh = plan_refund(account.purse, ended.parcels, moment.wall_ms // 1000)
    amount = sum(delta for _, delta, _ in moves)
    mark = make_mark(MarkKind.REFUND, operation, moment, amount)
    event = moved(
        account,
        moment,
        EntryType.REFUND,
        moves,
        operation,
        ended.method,
        Outcome.RELEASED,
        with_key("", ended.key),
        fresh=fresh,
        mark=mark,
        key=ended.key,
        key_day=ended.day,
    )
    return Settlement(True, event)


def decide_recall(operation: bytes, past: Past | None, moment: Moment) -> Recalled | None:
    """Take the end of an operation from the store into memory. past None: the operation never ended.

    An operation of another account counts as voided: this account must not pay for it.
    """
    if past is None:
        return None
    if past.voided or past.debit is None:
        return Recalled(operation, VOIDED, moment.steady)
    return Recalled(operation, posted_by(past.debit), moment.steady)


# --- operators and keys -------------------------------------------------------------------------------------------


def adjusted_before(account: Account, operation: bytes) -> int | None:
    """Return the credits that this adjustment moved, if it is so recent that the store may not have it yet;
    else None."""
    ended = account.operations.get(adjust_key(operation))
    return None if ended is None else sum(delta for _, delta in read_parcels(ended.parcels))


def decide_adjust(account: Account, amount: int, reason: str, operation: bytes, moment: Moment) -> Moved | None:
    """Grant (a batch with the configured life) or remove (at most what is available). None: nothing to remove.

    The caller has checked that this operation was not applied before.
    """
    assert 0 < abs(amount) <= ADJUSTMENT_MAX, amount
    fresh: Batch | None = None
    if amount > 0:
        now = moment.wall_ms // 1000
        moves, fresh = plan_grant(account.purse, Source.ADJUSTMENT, amount, now, account.defaults.batch_seconds)
    else:
        removable = min(-amount, account.purse.available)
        if removable == 0:
            return None
        moves = plan_spend(account.purse, removable)
    mark = make_mark(MarkKind.ADJUST, operation, moment, sum(delta for _, delta, _ in moves))
    return moved(account, moment, EntryType.ADJUSTMENT, moves, operation, description=reason, fresh=fresh, mark=mark)


def decide_key(account: Account, key_hash: bytes, key_prefix: str, moment: Moment) -> ProfileSet:
    profile: Profile = msgspec.structs.replace(account.profile, key_hash=key_hash, key_prefix=key_prefix)
    return ProfileSet(profile, None if account.profile.key_hash is None else moment.wall_ms)


def decide_status(account: Account, status: str) -> ProfileSet:
    return ProfileSet(msgspec.structs.replace(account.profile, status=status))


def decide_limits(account: Account, requests_per_second: Limit, concurrency: Limit) -> ProfileSet:
    """Set the limits of this account. None: the default; UNSET: the limit stays as it is."""
    wanted = {"requests_per_second": requests_per_second, "concurrency": concurrency}
    given = {name: limit for name, limit in wanted.items() if limit is not msgspec.UNSET}
    return ProfileSet(msgspec.structs.replace(account.profile, **given))


# --- entries ------------------------------------------------------------------------------------------------------


def make_mark(kind: MarkKind, operation: bytes, moment: Moment, amount: int = 0) -> Mark:
    return Mark(kind, operation, moment.wall_ms, amount)


def moved(
    account: Account,
    moment: Moment,
    kind: EntryType,
    moves: Moves,
    operation: bytes = b"",
    method: str = "",
    outcome: int = 0,
    description: str = "",
    fresh: Batch | None = None,
    mark: Mark | None = None,
    deposit: Deposit | None = None,
    returned: Return | None = None,
    key: int = 0,
    key_day: int = 0,
) -> Moved:
    """Make the account's next entry, with its moves."""
    amount = moves[0][1] if len(moves) == 1 else sum(delta for _, delta, _ in moves)
    entry = Entry(
        account.seq + 1,
        max(moment.wall_ms, account.last_ms),
        int(kind),
        amount,
        account.purse.balance + amount,
        operation,
        method,
        outcome,
        description,
        write_parcels(moves),
    )
    return Moved(entry, moves, moment.steady, fresh, mark, deposit, returned, key, key_day)
