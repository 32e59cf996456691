"""Decides whether a child key that is presented for the first time becomes a key of its account.

Implements: decisions, "Named keys" (children). Pure. Before it the caller ends the holds and batches past their time
(core.py). child_adoption.py records what is decided.

A child is a row for ever, and one of few. So it is taken up only while a call with it could begin: the keys that it was
made from are good and its own limits let this request in; the account is active and has credits; no budget of its path
is used up. And it costs a unit of the rates, of the account and of the keys above it, as a call does.
"""

from typing import NamedTuple

import msgspec

from actors.accounts.account import ACTIVE, Account, Admitted, Moment
from actors.accounts.child_keys import ChildBlock, ChildKey
from actors.accounts.named_keys import (
    DAY_MS,
    NO_PATH,
    KeyProfile,
    KeySpending,
    NamedKey,
    Path,
    StoredKey,
    may_sign,
    may_use,
    new_key,
    number_of,
    room_of,
    units_left_of,
    write_limits,
)
from actors.calls import KeyProof
from actors.errors import Err
from actors.identity.credentials import key_prefix


class Adoption(NamedTuple):
    """Decision about a child key: a refusal, or the keys to record and the rate unit that they cost.

    Neither: the child is already a key. The keys are ordered, each after the key it was made from. is_lasting: the text
    is refused from every address and at any time. lacks_room: there are too many children. path: of the child; a
    refusal tells its figures.
    """

    refusal: Err | None = None
    is_lasting: bool = False
    lacks_room: bool = False
    path: Path = NO_PATH
    profiles: tuple[KeyProfile, ...] = ()
    unit: Admitted | None = None


_BAD_TEXT = Adoption(Err.AUTH_FAILED, is_lasting=True)
_NO_ROOM = Adoption(Err.AUTH_FAILED, is_lasting=True, lacks_room=True)  # Lasting, because no child is ever forgotten.
_NOT_NOW = Adoption(Err.AUTH_FAILED)  # Not lasting: the same text may be accepted from another address, or later.


def decide_adoption(account: Account, child: ChildKey, proof: KeyProof, moment: Moment) -> Adoption:
    """Decide whether the child becomes a key. Checks without a signature come first, so that made-up texts cost
    little."""
    keys, now = account.keys, moment.wall_ms // 1000
    root = keys.by_root.get(child.root)
    if root is None:
        return _BAD_TEXT
    known = [keys.by_block[block.id] for block in child.blocks if block.id in keys.by_block]
    fresh = child.blocks[len(known) :]  # A block is recorded together with all blocks before it.
    above: Path = (*reversed(known), root)
    last = above[0].profile
    if not fresh and last.key_hash == proof.key_hash:
        return Adoption()
    if not fresh and last.key_hash != last.block:
        return _BAD_TEXT  # This block was presented earlier with another text.
    if not may_use(above, proof, now) or not may_sign(root, child.root, now):
        return _NOT_NOW
    if not keys.has_room(root, len(fresh)):
        return _NO_ROOM
    made = _made(account, fresh, above, proof, now)
    if made is None or not child.has_seed():
        return _BAD_TEXT
    path = (*made, *above)
    if not may_use(path, proof, now):
        return _NOT_NOW
    refusal = _refusal(account, path, moment)
    if refusal is not None:
        return Adoption(refusal, path=path)
    profiles = tuple(key.profile for key in reversed(made)) or (_presented(last, proof),)
    # As the unit of a call without a hold, it ends with its second.
    payer = number_of(above) if fresh else last.parent
    unit = Admitted(b"", moment.steady, now, 1, (), moment.steady, None, key=payer)
    return Adoption(path=path, profiles=profiles, unit=unit)


def _made(
    account: Account, fresh: tuple[ChildBlock, ...], above: Path, proof: KeyProof, now: int
) -> list[NamedKey] | None:
    """Return the keys that these blocks become, the last one first. None: a signature or limit is invalid."""
    number, parent = account.keys.last_number, number_of(above)
    made: list[NamedKey] = []
    for block in fresh:
        limits = block.proven_limits()
        if limits is None:
            return None
        number += 1
        profile = KeyProfile(
            number,
            limits.name,
            block.id,
            "",
            write_limits(limits),
            now,
            parent=parent,
            public=block.public,
            signed_by=block.signed_by,
            block=block.id,
        )
        # An intermediate key is known only by its block until somebody presents its text.
        made.insert(0, new_key(StoredKey(_presented(profile, proof) if block is fresh[-1] else profile, KeySpending())))
        parent = number
    return made


def _presented(profile: KeyProfile, proof: KeyProof) -> KeyProfile:
    return msgspec.structs.replace(profile, key_hash=proof.key_hash, key_prefix=key_prefix(proof.child))


def _refusal(account: Account, path: Path, moment: Moment) -> Err | None:
    """Return why no call with this key could begin now, or None. The order is that of admission.py."""
    second = moment.wall_ms // 1000
    if account.profile.status != ACTIVE:
        return Err.METHOD_NOT_ALLOWED
    if account.window.left(second, account.rate_limit) <= 0 or units_left_of(path, second) <= 0:
        return Err.RATE_LIMITED
    if room_of(path, moment.wall_ms // DAY_MS) <= 0:
        return Err.KEY_BUDGET_EXCEEDED
    if account.hourly.left(account.total_consumed, account.purse.held, second) <= 0:
        return Err.HOURLY_LIMIT_EXCEEDED
    return Err.INSUFFICIENT_CREDITS if account.purse.available <= 0 else None
