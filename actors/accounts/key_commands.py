"""Carries out the commands on named keys.

Implements: decisions, "Named keys". A shell: named_keys.py has the rules. A reply arrives when the change is durable.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.accounts import named_keys
from actors.accounts.account import Account
from actors.accounts.activations import Activations
from actors.accounts.admission import figures
from actors.accounts.api import OfAccount, OwnerReply, refused
from actors.accounts.child_keys import root_public
from actors.accounts.key_requests import ChangeKey, CreateKey, DeleteKey, KeyState, ListKeys, NewKey, RotateKey
from actors.accounts.named_keys import DELETED, FROZEN, KeyLimits, KeyProfile, NamedKey
from actors.errors import Err
from actors.identity.credentials import RANDOM_BYTES, key_hash, key_prefix, new_api_key

_NO_KEY = "this account has no key of this number; GET /account/keys lists them"
_TAKEN = "a key of this name is there already"
_TOO_MANY = f"an account may have {named_keys.KEYS_MAX} named keys: delete one first"
_NO_MORE = f"an account may have {named_keys.KEYS_EVER_MAX} named keys in all, deleted ones too; rotate one"

_NOT_ROTATED = (
    "a key that was made from another one is not rotated: delete it, and make another one from the key that it was"
    " made from"
)

Reply = OwnerReply[Any]


class KeyCommands:
    def __init__(self, activations: Activations, random_bytes: Callable[[int], bytes]) -> None:
        self._activations, self._random_bytes = activations, random_bytes

    async def answer(self, command: OfAccount[Any]) -> Reply:
        account = await self._activations.account_for(command.pubkey, _mistake_in(command))
        if isinstance(account, OwnerReply):
            return account
        # The turn: nothing is awaited from here until the change is recorded.
        match command:
            case ListKeys():
                return await self._list(account, command)
            case CreateKey(_, name, limits):
                return await self._create(account, name, limits)
            case ChangeKey() | RotateKey() | DeleteKey():
                key = _found(account, command.number)
                return refused(Err.NOT_FOUND, _NO_KEY) if key is None else await self._answer_on(account, key, command)
        raise AssertionError(f"no such command: {type(command).__name__}")

    async def _answer_on(self, account: Account, key: NamedKey, command: ChangeKey | RotateKey | DeleteKey) -> Reply:
        match command:
            case ChangeKey():
                return await self._change(account, key, command)
            case RotateKey():
                return await self._rotate(account, key, command)
            case DeleteKey():
                return await self._set(account, msgspec.structs.replace(key.profile, status=DELETED, old_until=0))

    async def _list(self, account: Account, command: ListKeys) -> Reply:
        day, own = self._day(), account.keys.path(command.key)
        if command.parent is not None:
            if own and own[0] not in account.keys.path(command.parent):
                return refused(Err.NOT_FOUND, _NO_KEY)
            shown: Sequence[NamedKey] = _living(account, command.parent)
        else:
            shown = own[:1] if command.key else _living(account)
        page = [key for key in shown if key.profile.number > command.after][: named_keys.LISTED_MAX]
        reply = self._reply(account, tuple(_state(key, day) for key in page))
        await self._activations.until_written(account.pubkey)
        return reply

    async def _create(self, account: Account, name: str, limits: KeyLimits) -> Reply:
        living = _living(account)
        if any(key.profile.name == name for key in living):
            return refused(Err.INVALID_REQUEST, _TAKEN)
        if len(living) >= named_keys.KEYS_MAX:
            return refused(Err.INVALID_REQUEST, _TOO_MANY)
        if account.keys.last_number - account.keys.children.total() >= named_keys.KEYS_EVER_MAX:
            return refused(Err.INVALID_REQUEST, _NO_MORE)
        text = new_api_key(account.pubkey, self._random_bytes(RANDOM_BYTES))
        profile = KeyProfile(
            account.keys.last_number + 1,
            name,
            key_hash(text),
            key_prefix(text),
            named_keys.write_limits(limits),
            self._now(),
            public=root_public(text),
        )
        return await self._set(account, profile, text)

    async def _change(self, account: Account, key: NamedKey, command: ChangeKey) -> Reply:
        profile = key.profile
        if command.name is not msgspec.UNSET:
            if any(each.profile.name == command.name and each is not key for each in _living(account)):
                return refused(Err.INVALID_REQUEST, _TAKEN)
            profile = msgspec.structs.replace(profile, name=command.name)
        if command.limits:
            limits = msgspec.structs.replace(key.limits, **command.limits)
            mistake = named_keys.mistake_in_limits(limits)
            if mistake is not None:
                return refused(Err.INVALID_REQUEST, mistake)
            profile = msgspec.structs.replace(profile, limits=named_keys.write_limits(limits))
        if command.is_frozen is not msgspec.UNSET:
            profile = msgspec.structs.replace(profile, status=FROZEN if command.is_frozen else named_keys.ACTIVE)
        return await self._set(account, profile)

    async def _rotate(self, account: Account, key: NamedKey, command: RotateKey) -> Reply:
        if key.profile.block is not None:
            # A child's text proves its origin, and a new text from the wallet would not. Nobody needs rotation: the
            # holder of the parent key makes another child without asking.
            return refused(Err.INVALID_REQUEST, _NOT_ROTATED)
        text = new_api_key(account.pubkey, self._random_bytes(RANDOM_BYTES))
        profile = msgspec.structs.replace(
            key.profile,
            key_hash=key_hash(text),
            key_prefix=key_prefix(text),
            old_hash=key.profile.key_hash,
            old_until=self._now() + command.grace_seconds,
            public=root_public(text),
            old_public=key.profile.public,
        )
        return await self._set(account, profile, text)

    async def _set(self, account: Account, profile: KeyProfile, text: str = "") -> Reply:
        written = self._activations.set_key(account, profile)
        state = _state(account.keys.by_number[profile.number], self._day())
        reply = self._reply(account, NewKey(state, text) if text else state)
        await asyncio.shield(written)
        return reply

    def _reply(self, account: Account, value: Any) -> Reply:
        return OwnerReply(value, figures=figures(account, self._activations.moment()))

    def _day(self) -> int:
        return self._activations.moment().wall_ms // named_keys.DAY_MS

    def _now(self) -> int:
        return self._activations.moment().wall_ms // 1000


def _living(account: Account, parent: int = 0) -> list[NamedKey]:
    """Return the keys that are not deleted: those that the wallet made, or the children of the key `parent`."""
    keys = account.keys.by_number.values()
    return [key for key in keys if key.profile.parent == parent and key.profile.status != DELETED]


def _found(account: Account, number: int) -> NamedKey | None:
    key = account.keys.by_number.get(number)
    return None if key is None or key.profile.status == DELETED else key


def _mistake_in(command: OfAccount[Any]) -> str | None:
    match command:
        case CreateKey(_, name, limits):
            return named_keys.mistake_in_name(name) or named_keys.mistake_in_limits(limits)
        case ChangeKey(_, _, name) if name is not msgspec.UNSET:
            return named_keys.mistake_in_name(name)
        case RotateKey(_, _, grace_seconds) if not 0 <= grace_seconds <= named_keys.GRACE_SECONDS_MAX:
            return f"grace_seconds must be 0 to {named_keys.GRACE_SECONDS_MAX}"
    return None


def _state(key: NamedKey, day: int) -> KeyState:
    profile = key.profile
    return KeyState(
        profile.number,
        profile.name,
        profile.key_prefix,
        profile.status,
        profile.created_at,
        key.limits,
        key.total,
        key.in_day if key.day >= day else 0,
        key.held,
        profile.old_until,
        profile.parent,
    )
