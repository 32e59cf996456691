"""The release before and this one understand each other, in both directions, as both run while one replaces the other.

Rule: hotlink/README.md, "Releases side by side". fixtures/messages/ has what each release said, byte for byte.
"""

import importlib
import inspect
import json
import pickle
import re
from dataclasses import MISSING
from dataclasses import fields as fields_of_dataclass
from typing import Any, get_args

import msgspec
import pytest

from actors import calls
from actors.accounts import api as accounts
from actors.growing import Growing
from actors.hotlink.frames import MessageKind, message
from actors.streams import api as streams
from tests.hotlink import release_0_1_0 as before
from tests.tidy.sources import ROOT

_SAID = json.loads((ROOT / "tests/fixtures/messages/release-0.1.0.json").read_text(encoding="utf-8"))
_KINDS: dict[int, MessageKind] = {
    kind.number: kind
    for module in (accounts, streams)
    for kind in vars(module).values()
    if isinstance(kind, MessageKind)
}


def decoder(item: Any) -> Any:
    return msgspec.msgpack.Decoder(tuple.__class_getitem__((int, list[tuple[int, item]])))


def of_today(kind: int, side: str) -> Any:
    return _KINDS[kind].frame_decoder() if side == "request" else _KINDS[kind].answer_decoder()


def of_before(kind: int, side: str) -> Any:
    request, reply = before.KINDS[kind]
    return decoder(request if side == "request" else reply | bool | None)


def same_as_far_as_known(old: Any, new: Any) -> bool:
    """Whether both say the same, but for what `old` has no place for."""
    if isinstance(old, msgspec.Struct):
        return type(old).__name__ == type(new).__name__ and all(
            same_as_far_as_known(getattr(old, name), getattr(new, name)) for name in old.__struct_fields__
        )
    if isinstance(old, list | tuple):
        return len(old) == len(new) and all(map(same_as_far_as_known, old, new))
    return bool(old == new)


def test_every_kind_was_recorded() -> None:
    """And no number of before is gone, or means another message now."""
    assert {said["kind"] for said in _SAID["messages"]} == before.KINDS.keys() <= _KINDS.keys()
    for number, (request, reply) in before.KINDS.items():
        today = _KINDS[number].request_type, _KINDS[number].reply_type
        assert [names(request), names(reply)] == [names(kind) for kind in today]


def names(kind: Any) -> list[str]:
    """Of a struct, or of a union of them."""
    return [one.__name__ for one in get_args(kind) or [kind]]


@pytest.mark.parametrize("said", _SAID["messages"], ids=lambda said: f"{said['kind']}-{said['side']}")
def test_what_the_release_before_says_is_understood_and_answered_in_its_words(said: dict[str, Any]) -> None:
    """Its bytes, read today; what today says in the same case, read by its own definitions; nothing lost either way."""
    raw, kind, side = bytes.fromhex(said["bytes"]), said["kind"], said["side"]
    assert raw[0] == kind
    then, today = of_before(kind, side).decode(raw[1:]), of_today(kind, side).decode(raw[1:])
    assert same_as_far_as_known(then, today)
    again = message(kind, today)
    assert same_as_far_as_known(then, of_before(kind, side).decode(again[1:]))
    assert of_today(kind, side).decode(again[1:]) == today


def named(name: str) -> Any:
    """The class of today."""
    return next(getattr(module, name) for module in (calls, streams) if hasattr(module, name))


def structs_of_before() -> list[type[msgspec.Struct]]:
    return [one for one in vars(before).values() if inspect.isclass(one) and issubclass(one, msgspec.Struct)]


@pytest.mark.parametrize("then", structs_of_before(), ids=lambda then: then.__name__)
def test_messages_only_grow_at_their_end(then: Any) -> None:
    """Fields keep their place, as a message is an array without names; a new one has a default, for those who do not
    send it; and readers of before pass over what they do not know."""
    today = named(then.__name__)
    assert grows(then.__struct_fields__, today)
    assert today.__struct_config__.array_like and not today.__struct_config__.forbid_unknown_fields
    assert today.__struct_config__.tag == then.__struct_config__.tag


def grows(known: Any, today: Any) -> bool:
    """Whether the fields of before come first, and each new one has a default."""
    rows = fields_of(today)
    return [name for name, _ in rows[: len(known)]] == list(known) and not any(
        required for _, required in rows[len(known) :]
    )


def fields_of(kind: Any) -> list[tuple[str, bool]]:
    if issubclass(kind, msgspec.Struct):
        return [(field.name, field.required) for field in msgspec.structs.fields(kind)]
    return [
        (field.name, field.default is MISSING and field.default_factory is MISSING)
        for field in fields_of_dataclass(kind)
    ]


_PICKLED = [(module, name, rows) for module, kinds in _SAID["structs"].items() for name, rows in kinds.items()]


@pytest.mark.parametrize(("module", "name", "rows"), _PICKLED, ids=lambda value: str(value)[:40])
def test_values_for_actors_only_grow_at_their_end(module: str, name: str, rows: list[tuple[str, bool]]) -> None:
    """Commands and replies that travel by pickle: a new field stands last and has a default; and so that the release
    before reads a value that does not use it, a struct with a new field is `Growing` (actors/growing.py)."""
    today = getattr(importlib.import_module(module), name)
    assert grows([name for name, _ in rows], today), f"{name}: new fields stand last, with a default"
    if len(fields_of(today)) > len(rows) and issubclass(today, msgspec.Struct):
        assert issubclass(today, Growing), f"{name} has a new field: make it Growing"


@pytest.mark.parametrize("said", _SAID["pickles"], ids=lambda said: said["repr"].partition("(")[0])
def test_values_of_the_release_before_are_read(said: dict[str, str]) -> None:
    found = pickle.loads(bytes.fromhex(said["bytes"]))
    # Fields of now, which that release did not say, stand last in each value, and have their defaults.
    told = re.sub(r", (address|origin|child)=''|, key=0", "", repr(found))
    assert told.startswith(said["repr"].rstrip(")").rpartition(",")[0])
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_rules_find_what_they_are_for() -> None:
    """A rule that never says no guards nothing."""

    class Moved(msgspec.Struct, array_like=True):
        ceiling: int
        method: str

    class Longer(msgspec.Struct, array_like=True):
        method: str
        ceiling: int
        colour: str

    assert not grows(before.HoldItem.__struct_fields__, Moved)
    assert not grows(before.HoldItem.__struct_fields__, Longer)
    item = decoder(before.HoldItem).decode(msgspec.msgpack.encode((1, [(1, ("getSlot", 1, "red"))])))
    assert item == (1, [(1, before.HoldItem("getSlot", 1))]), "a reader of before passes over what it does not know"
