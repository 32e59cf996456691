"""Filters of signals, and how clients write them.

Implements: interface, "WebSocket /ws" (subscribeSignal: filters combine with AND, an absent filter matches everything);
decisions, "watched wallets". Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from actors.errors import Err, Refusal
from actors.signals.events import KINDS, SignalEvent
from actors.signals.log import parse_cursor
from actors.units import json_integer, parse_pubkey

LIST_MAX = 100
_NAMES = frozenset({"kinds", "mint", "programs", "wallets", "min_lamports", "since"})
_U64_MAX = (1 << 64) - 1


class SignalFilter(msgspec.Struct, frozen=True, array_like=True):
    """None: no filter. min_lamports: the smallest largeSwap; the deployment's threshold applies where it is higher."""

    kinds: frozenset[str] | None = None
    mint: str | None = None
    programs: frozenset[str] | None = None
    wallets: frozenset[str] | None = None
    min_lamports: int = 0

    def matches(self, event: SignalEvent) -> bool:
        if self.kinds is not None and event.kind not in self.kinds:
            return False
        if self.mint is not None and event.mint != self.mint:
            return False
        if self.programs is not None and event.program not in self.programs:
            return False
        if self.wallets is not None and self.wallets.isdisjoint(event.wallets or event.accounts):
            return False
        return event.lamports is None or event.lamports >= self.min_lamports


class WantedSignals(msgspec.Struct, frozen=True):
    filter: SignalFilter
    since: str | None


def read_arguments(arguments: Sequence[Any], err: Err = Err.INVALID_PARAMS) -> WantedSignals | Refusal:
    """Read the params of subscribeSignal: at most one object."""
    if len(arguments) > 1 or (arguments and not isinstance(arguments[0], Mapping)):
        return Refusal(err, "wanted one object with filters")
    return read_fields(arguments[0] if arguments else {}, err)


def read_query(query: Mapping[str, str], others: Collection[str] = ()) -> WantedSignals | Refusal:
    """Read the parameters of a URL, where lists are separated by commas.

    others: parameters of the page itself, which it has read; a refusal names them as well.
    """
    err = Err.INVALID_REQUEST
    known = sorted({*_NAMES, "program", *others})
    for name in query:
        if name not in known:
            return Refusal(err, f"unknown parameter; wanted {', '.join(known)}")
    fields: dict[str, Any] = {name: value for name, value in query.items() if name not in others}
    for name in ("kinds", "programs", "wallets"):
        if name in fields:
            fields[name] = fields[name].split(",")
    if "program" in fields:
        fields["programs"] = [fields.pop("program"), *fields.get("programs", [])]
    smallest = fields.get("min_lamports")
    if smallest is not None:
        if not (smallest.isascii() and smallest.isdigit() and len(smallest) <= 20):
            return Refusal(err, "min_lamports: wanted a whole number")
        fields["min_lamports"] = int(smallest)
    return read_fields(fields, err)


def read_fields(fields: Mapping[str, Any], err: Err) -> WantedSignals | Refusal:
    for name in fields:
        if name not in _NAMES:
            return Refusal(err, f"unknown filter; wanted {', '.join(sorted(_NAMES))}")
    kinds, mint = fields.get("kinds"), fields.get("mint")
    if kinds is not None and (
        not _is_list(kinds) or not all(isinstance(each, str) and each in KINDS for each in kinds)
    ):
        return Refusal(err, f"kinds: wanted a list of {', '.join(sorted(KINDS))}")
    if mint is not None and not _is_key(mint):
        return Refusal(err, "mint: wanted a base58 public key")
    for name in ("programs", "wallets"):
        keys = fields.get(name)
        if keys is not None and (not _is_list(keys) or not all(map(_is_key, keys))):
            return Refusal(err, f"{name}: wanted 1 to {LIST_MAX} base58 public keys")
    least, since = fields.get("min_lamports"), fields.get("since")
    smallest = 0 if least is None else json_integer(least)
    if smallest is None or not 0 <= smallest <= _U64_MAX:
        return Refusal(err, "min_lamports: wanted a whole number of lamports")
    if since is not None and (not isinstance(since, str) or parse_cursor(since) is None):
        return Refusal(err, "since: wanted a cursor of an earlier notification")
    return WantedSignals(
        SignalFilter(_set(kinds), mint, _set(fields.get("programs")), _set(fields.get("wallets")), smallest), since
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and 1 <= len(value) <= LIST_MAX


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and parse_pubkey(value) is not None


def _set(values: Sequence[str] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)
