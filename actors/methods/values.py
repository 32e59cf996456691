"""Checks single parameter values: keys, signatures, numbers, configuration fields.

Implements: the forms that Agave's RPC decodes (positional parameters, optional configuration objects).
Pure. forms.py joins checks with schemas; the families of methods say which parameters a method takes.

A check takes a value and the name that the client is told; it returns nothing and raises InvalidError.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey
from solders.signature import Signature

Check = Callable[[Any, str], None]

U64_MAX = (1 << 64) - 1
_COMMITMENTS = ("processed", "confirmed", "finalized")
# Names from older nodes; the node decides which of them it still accepts.
_FORMER_COMMITMENTS = ("recent", "single", "singleGossip", "root", "max")


class InvalidError(Exception):
    """Raised by a check, with one sentence for the client. params.check() turns it into a refusal."""


def at(arguments: list[Any], index: int, name: str) -> Any:
    if len(arguments) <= index:
        raise InvalidError(f"parameter {index + 1} ({name}) is missing")
    return arguments[index]


def at_most(arguments: list[Any], count: int) -> None:
    if len(arguments) > count:
        allowed = f"at most {count} are taken" if count else "this method takes none"
        raise InvalidError(f"{len(arguments)} parameters, {allowed}")


def shown(value: Any, characters_max: int = 48) -> str:
    """A value that a client sent, shortened and without unprintable characters."""
    text = value if isinstance(value, str) else type(value).__name__
    printable = "".join(character if character.isprintable() else "?" for character in text[:characters_max])
    return printable + ("..." if len(text) > characters_max else "")


# --- checks of one value


def _base58(decode: Callable[[str], object], shortest: int, longest: int, noun: str) -> Check:
    """Make a check of base58 text. Texts of other lengths are refused before they are decoded."""

    def check(value: Any, name: str) -> None:
        if type(value) is str and shortest <= len(value) <= longest:
            try:
                decode(value)
            except (ValueError, ParseHashError):
                pass
            else:
                return
        raise InvalidError(f"{name}: {shown(value)} is not a base58 {noun}")

    return check


pubkey = _base58(Pubkey.from_string, 32, 44, "public key of 32 bytes")
signature = _base58(Signature.from_string, 64, 88, "signature of 64 bytes")
blockhash = _base58(Hash.from_string, 32, 44, "hash of 32 bytes")


def whole_number(value: Any, name: str, largest: int = U64_MAX, smallest: int = 0) -> int:
    if type(value) is not int or not smallest <= value <= largest:
        raise InvalidError(f"{name}: wanted a whole number from {smallest} to {largest}")
    return value


def u64(value: Any, name: str) -> None:
    whole_number(value, name)


def up_to(largest: int, smallest: int = 0) -> Check:
    def check(value: Any, name: str) -> None:
        whole_number(value, name, largest, smallest)

    return check


def boolean(value: Any, name: str) -> None:
    if type(value) is not bool:
        raise InvalidError(f"{name}: wanted true or false")


def one_of(*choices: str) -> Check:
    def check(value: Any, name: str) -> None:
        if type(value) is not str or value not in choices:
            raise InvalidError(f"{name}: {shown(value)} is none of {', '.join(choices)}")

    return check


def commitment(value: Any, name: str) -> None:
    if value not in _COMMITMENTS and value not in _FORMER_COMMITMENTS:
        raise InvalidError(f"{name}: {shown(value)} is none of {', '.join(_COMMITMENTS)}")


def commitment_from_confirmed(value: Any, name: str) -> None:
    if value == "processed":
        raise InvalidError(f"{name}: this method answers from confirmed on")
    commitment(value, name)


def items(value: Any, name: str, check: Check, length_max: int, length_min: int = 0) -> list[Any]:
    if type(value) is not list:
        raise InvalidError(f"{name}: wanted an array")
    if not length_min <= len(value) <= length_max:
        bound = f"at most {length_max}" if len(value) > length_max else f"at least {length_min}"
        raise InvalidError(f"{name}: {len(value)} entries, {bound} are allowed")
    for item in value:
        check(item, name)
    return value


def list_of(check: Check, length_max: int) -> Check:
    def check_list(value: Any, name: str) -> None:
        items(value, name, check, length_max)

    return check_list


def fields(value: Any, name: str, checks: Mapping[str, Check], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Check the known fields of an object; null counts as missing, and unknown fields are ignored, as nodes do."""
    if type(value) is not dict:
        raise InvalidError(f"{name} must be an object")
    for field in required:
        if value.get(field) is None:
            raise InvalidError(f"{name}: {field} is missing")
    for field, held in value.items():
        check = checks.get(field)
        if check is not None and held is not None:
            check(held, field)
    return value


def an_object(checks: Mapping[str, Check], required: tuple[str, ...] = ()) -> Check:
    def check(value: Any, name: str) -> None:
        fields(value, name, checks, required)

    return check


def decoded_base64(value: Any, name: str, characters_max: int) -> bytes:
    if type(value) is not str:
        raise InvalidError(f"{name}: wanted a string")
    if len(value) > characters_max:
        raise InvalidError(f"{name}: {len(value)} characters of base64, at most {characters_max} are allowed")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidError(f"{name}: not valid base64") from None
