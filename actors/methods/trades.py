"""Parameters of executeSnipe and executeSell: amounts read from their exact text, never through a float.

Implements: interface, "executeSnipe" and "executeSell"; threat 34. Pure.

JSON gives a number as text, and parsers turn it into a float. 0.1 SOL is no float, so the text itself is read. Every
form of a JSON number is taken, as encoders choose it (Python writes 0.00005 as 5e-05), if its exact value has at most
nine digits after the point. A string is written by hand: plain digits, without an exponent.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec

from actors.methods.questions import SellQuestion, SnipeQuestion, encoded
from actors.methods.values import U64_MAX, InvalidError, at, at_most, fields, pubkey, shown, u64, up_to

SLIPPAGE_BPS, SLIPPAGE_BPS_MAX = 500, 10_000
PRIORITY_FEE_MICRO_LAMPORTS = 100_000
LAMPORTS_PER_SOL = 10**9
_SOL = re.compile(r"(0|[1-9][0-9]{0,10})(?:\.([0-9]{1,9}))?")
# Longer ones are no amount of SOL, and a large exponent would make an integer of as many digits.
_JSON_NUMBER = re.compile(r"[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,2})?")
_UNITS = re.compile(r"0|[1-9][0-9]{0,19}")
_OBJECTS_DECODER = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_CHECKS = {"slippage_bps": up_to(SLIPPAGE_BPS_MAX), "priority_fee_micro_lamports": u64}


def _snipe(arguments: list[Any], raw: bytes) -> bytes:
    given, text = _given(arguments, raw, "amount_sol")
    budget = _lamports(text, is_number=type(given["amount_sol"]) is not str)
    slippage = _or(given, "slippage_bps", SLIPPAGE_BPS)
    if budget + budget * slippage // SLIPPAGE_BPS_MAX > U64_MAX:
        raise InvalidError("amount_sol: with slippage it is more lamports than there can be")
    fee = _or(given, "priority_fee_micro_lamports", PRIORITY_FEE_MICRO_LAMPORTS)
    return encoded(SnipeQuestion(given["mint"], budget, slippage, fee))


def _sell(arguments: list[Any], raw: bytes) -> bytes:
    given, text = _given(arguments, raw, "token_amount")
    slippage = _or(given, "slippage_bps", SLIPPAGE_BPS)
    fee = _or(given, "priority_fee_micro_lamports", PRIORITY_FEE_MICRO_LAMPORTS)
    return encoded(SellQuestion(given["mint"], _tokens(text), slippage, fee))


def _given(arguments: list[Any], raw: bytes, amount: str) -> tuple[dict[str, Any], str]:
    """The checked object, and the text of its amount: a string's content, or a number's digits."""
    at_most(arguments, 1)
    given = fields(at(arguments, 0, "trade"), "parameter 1", _CHECKS, required=("mint", amount))
    names = ("mint", amount, *_CHECKS)
    for name in given:
        if name not in names:  # A misspelt slippage would cost its sender money.
            raise InvalidError(f"parameter 1: {shown(name)} is none of {', '.join(names)}")
    pubkey(given["mint"], "mint")
    value = given[amount]
    if type(value) is str:
        return given, value
    if type(value) not in (int, float):
        raise InvalidError(f"{amount}: wanted a number or a decimal string")
    return given, bytes(_OBJECTS_DECODER.decode(raw)[0][amount]).decode()


def _lamports(text: str, is_number: bool) -> int:
    """Read an amount of SOL exactly. is_number: the text is a JSON number, else the content of a string."""
    if (_JSON_NUMBER if is_number else _SOL).fullmatch(text) is None:
        raise InvalidError(
            f"amount_sol: {shown(text)} is not a plain decimal number of SOL with at most 9 digits after the point"
        )
    # Not Decimal's own arithmetic, which rounds.
    _, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int), "a number with digits is finite"
    written, unit = int("".join(map(str, digits))), int(10 ** abs(exponent + 9))
    lamports, rest = (written * unit, 0) if exponent >= -9 else divmod(written, unit)
    if rest:
        raise InvalidError(f"amount_sol: {shown(text)} has more than 9 digits after the point")
    if not 0 < lamports <= U64_MAX:
        raise InvalidError(f"amount_sol: wanted 0.000000001 to {U64_MAX // LAMPORTS_PER_SOL}")
    return lamports


def _tokens(text: str) -> int:
    tokens = int(text) if _UNITS.fullmatch(text) else 0
    if not 0 < tokens <= U64_MAX:
        raise InvalidError(
            f"token_amount: {shown(text)} is not a whole number of base units from 1 to {U64_MAX}, in plain digits"
        )
    return tokens


def _or(given: dict[str, Any], name: str, default: int) -> int:
    value = given.get(name)
    return default if value is None else value


RULES: MappingProxyType[str, Callable[[list[Any], bytes], bytes]] = MappingProxyType(
    {"executeSnipe": _snipe, "executeSell": _sell}
)
