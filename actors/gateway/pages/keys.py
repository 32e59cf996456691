"""/account/keys: named keys of an account, with budgets.

Implements: decisions, "Named keys"; README, "Named keys". A shell only where it asks the account's owner. The rules are
accounts/named_keys.py's; here are the bodies. The door takes nothing but a wallet's signature for what changes a key.
"""

from typing import Any

import msgspec

from actors.accounts.api import Command, OwnersClient
from actors.accounts.key_requests import ChangeKey, CreateKey, DeleteKey, KeyState, ListKeys, NewKey, RotateKey
from actors.accounts.named_keys import LISTED_MAX, KeyLimits
from actors.errors import Err, Refusal
from actors.gateway.pages.account import iso_time
from actors.gateway.pages.callers import owners_answer
from actors.pages import Page, PageAnswer, PageRequest, json_answer
from actors.times import unix_ms

_PRIVATE = (("cache-control", "no-store"),)
_NUMBERS_MAX = 9  # Digits of a key's number.
_MESSAGE = "keep this key: it is shown once"


class _Limits(msgspec.Struct, forbid_unknown_fields=True):
    credits_a_day: int | msgspec.UnsetType | None = msgspec.UNSET
    credits_total: int | msgspec.UnsetType | None = msgspec.UNSET
    requests_per_second: int | msgspec.UnsetType | None = msgspec.UNSET
    methods: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    origins: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    addresses: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    expires_at: int | str | msgspec.UnsetType | None = msgspec.UNSET


class _Wanted(_Limits, kw_only=True):
    name: str


class _Changes(_Limits, kw_only=True):
    name: str | msgspec.UnsetType = msgspec.UNSET
    frozen: bool | msgspec.UnsetType = msgspec.UNSET


class _Rotation(msgspec.Struct, forbid_unknown_fields=True):
    grace_seconds: int = 0


class KeyPages:
    def __init__(self, accounts: OwnersClient) -> None:
        self._accounts = accounts

    def pages(self) -> list[Page]:
        return [
            Page("GET", "/account/keys", self._list, for_keys=True),
            Page("POST", "/account/keys", self._create, only_wallet=True),
            Page("PATCH", "/account/keys/{id}", self._change, only_wallet=True),
            Page("DELETE", "/account/keys/{id}", self._delete, only_wallet=True),
            Page("POST", "/account/keys/{id}/rotate", self._rotate, only_wallet=True),
        ]

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        if not set(request.query) <= {"parent", "after"} or not all(map(_is_number, request.query.values())):
            return _bad("parameters are parent, the id of the key from which others were made, and after, an id")
        parent, after = request.query.get("parent"), int(request.query.get("after", "0"))
        asked = ListKeys(request.account, request.payer_key, None if parent is None else int(parent), after)
        found = await owners_answer(self._accounts, asked)
        if isinstance(found, Refusal):
            return found
        following = found[-1].number if len(found) == LISTED_MAX else None
        return json_answer({"keys": [key_body(key) for key in found], "next_after": following}, headers=_PRIVATE)

    async def _create(self, request: PageRequest) -> PageAnswer | Refusal:
        wanted = _decoded(request.body, _Wanted)
        if isinstance(wanted, Refusal):
            return wanted
        given = _given(wanted)
        if isinstance(given, Refusal):
            return given
        return await self._told(CreateKey(request.account, wanted.name, KeyLimits(**given)))

    async def _change(self, request: PageRequest) -> PageAnswer | Refusal:
        number, changes = _number(request), _decoded(request.body, _Changes)
        if isinstance(number, Refusal):
            return number
        if isinstance(changes, Refusal):
            return changes
        given = _given(changes)
        if isinstance(given, Refusal):
            return given
        command = ChangeKey(request.account, number, changes.name, given, changes.frozen)
        return await self._told(command)

    async def _delete(self, request: PageRequest) -> PageAnswer | Refusal:
        number = _number(request)
        if isinstance(number, Refusal):
            return number
        return await self._told(DeleteKey(request.account, number))

    async def _rotate(self, request: PageRequest) -> PageAnswer | Refusal:
        number, rotation = _number(request), _decoded(request.body or b"{}", _Rotation)
        if isinstance(number, Refusal):
            return number
        if isinstance(rotation, Refusal):
            return rotation
        return await self._told(RotateKey(request.account, number, rotation.grace_seconds))

    async def _told(self, command: Command[Any]) -> PageAnswer | Refusal:
        answered = await owners_answer(self._accounts, command)
        if isinstance(answered, Refusal):
            return answered
        if isinstance(answered, NewKey):
            number, status = answered.state.number, 201 if isinstance(command, CreateKey) else 200
            body = {"ok": True, "id": number, "key": key_body(answered.state), "api_key": answered.text}
            return json_answer(body | {"message": _MESSAGE}, status, _PRIVATE)
        return json_answer({"ok": True, "key": key_body(answered)}, headers=_PRIVATE)


def key_body(key: KeyState) -> dict[str, Any]:
    limits = key.limits
    return {
        "id": key.number,
        "name": key.name,
        "prefix": key.prefix,
        "status": key.status,
        "created_at": iso_time(key.created_at),
        "credits_a_day": limits.credits_a_day,
        "credits_total": limits.credits_total,
        "requests_per_second": limits.requests_per_second,
        "methods": limits.methods,
        "origins": limits.origins,
        "addresses": limits.addresses,
        "expires_at": None if limits.expires_at is None else iso_time(limits.expires_at),
        "spent_today": key.spent_today,
        "spent_total": key.spent_total,
        "held": key.held,
        "parent": key.parent or None,
        "former_key_good_until": iso_time(key.old_until) if key.old_until else None,
    }


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _bad(f"the body is not as it should be: {str(error)[:200]}")


def _given(wanted: _Limits) -> dict[str, Any] | Refusal:
    """The limits that were sent. null: there is no limit of this kind."""
    names = (field.name for field in msgspec.structs.fields(KeyLimits))
    given = {name: value for name in names if (value := getattr(wanted, name)) is not msgspec.UNSET}
    for name in ("methods", "origins", "addresses"):
        if name in given and given[name] is None:
            given[name] = ()
    if isinstance(at := given.get("expires_at"), str):
        moment = unix_ms(at)
        if moment is None:
            return _bad("expires_at must be a time in UTC, such as 2026-12-01T00:00:00Z, or Unix seconds, or null")
        given["expires_at"] = moment // 1000
    return given


def _number(request: PageRequest) -> int | Refusal:
    text = request.parameters["id"]
    return int(text) if _is_number(text) else _bad("a key is named by its id, a number: GET /account/keys lists them")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _NUMBERS_MAX


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
