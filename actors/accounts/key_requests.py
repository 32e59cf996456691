"""The commands on named keys, which the owner of their account carries out.

Implements: decisions, "Named keys"; README, "Named keys". Vocabulary: named_keys.py has the rules, key_commands.py
carries out. The gateway has checked that a wallet signed each command that makes, changes or ends a key.
"""

from typing import Any

import msgspec

from actors.accounts.api import AccountStanding, Identity, OfAccount
from actors.accounts.named_keys import KeyLimits
from actors.calls import ProvenProof
from actors.errors import Err, Refusal

NOT_FOR_KEY = Refusal(Err.METHOD_NOT_ALLOWED, "this API key may not read its account: its methods do not name ACCOUNT")


def payer_of(found: Identity | AccountStanding) -> ProvenProof:
    """Return the account, and its named key, that pays for calls with this credential."""
    return ProvenProof(found.pubkey, found.key)


class KeyState(msgspec.Struct, frozen=True):
    """A key as its account sees it.

    spent_today: credits of this day of UTC. held: credits of running calls, which count as spent until they end.
    old_until: Unix seconds until which the text before the last rotation is valid; 0: it is not."""

    number: int
    name: str
    prefix: str
    status: str
    created_at: int
    limits: KeyLimits
    spent_total: int
    spent_today: int
    held: int
    old_until: int
    parent: int = 0


class NewKey(msgspec.Struct, frozen=True):
    """text: of the key; told once and stored nowhere."""

    state: KeyState
    text: str


class CreateKey(OfAccount[NewKey], frozen=True):
    """POST /account/keys."""

    name: str
    limits: KeyLimits


class ListKeys(OfAccount[tuple[KeyState, ...]], frozen=True):
    """GET /account/keys: at most LISTED_MAX keys that are not deleted, with numbers above `after`.

    key: number of the named key that asks, which sees only itself and its children; 0: none asks. parent: list the keys
    made from this one."""

    key: int = 0
    parent: int | None = None
    after: int = 0


class ChangeKey(OfAccount[KeyState], frozen=True):
    """PATCH /account/keys/{number}. UNSET: unchanged. limits: fields of KeyLimits that change."""

    number: int
    name: str | msgspec.UnsetType = msgspec.UNSET
    limits: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it.
    is_frozen: bool | msgspec.UnsetType = msgspec.UNSET


class RotateKey(OfAccount[NewKey], frozen=True):
    """POST /account/keys/{number}/rotate: make a new text for the same key.

    The former text is valid for grace_seconds more; one that is still valid from an earlier rotation ends now."""

    number: int
    grace_seconds: int


class DeleteKey(OfAccount[KeyState], frozen=True):
    """DELETE /account/keys/{number}: no call by the key begins any more, and its open streams end."""

    number: int
