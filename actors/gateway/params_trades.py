"""Parameters of executeSnipe and executeSell: amounts read from their exact text, never through a float.

Implements: interface specification, "executeSnipe" and "executeSell"; hostile input 34. Pure.

JSON gives a number as text, and parsers turn it into a float. 0.1 SOL is no float, so the text itself is read: digits,
and at most nine after the point. Exponents are refused, because nobody means an amount of `1e3` exactly.
"""

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import msgspec

from actors.gateway.params_values import U64_MAX, InvalidError, at, at_most, fields, pubkey, shown, u64, up_to
from actors.method_requests import SellQuestion, SnipeQuestion, encoded

SLIPPAGE_BPS, SLIPPAGE_BPS_MAX = 500, 10_000
PRIORITY_FEE_MICRO_LAMPORTS = 100_000
LAMPORTS_PER_SOL = 10**9
_SOL = re.compile(r"(0|[1-9][0-9]{0,10})(?:\.([0-9]{1,9}))?")
_UNITS = re.compile(r"0|[1-9][0-9]{0,19}")
_OBJECTS_DECODER = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_CHECKS = {"slippage_bps": up_to(SLIPPAGE_BPS_MAX), "priority_fee_micro_lamports": u64}


def _snipe(arguments: list[Any], raw: bytes) -> bytes:
    given, text = _given(arguments, raw, "amount_sol")
    budget = _lamports(text)
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


def _lamports(text: str) -> int:
    found = _SOL.fullmatch(text)
    if found is None:
        raise InvalidError(
            f"amount_sol: {shown(text)} is not a plain decimal number of SOL with at most 9 digits after the point"
        )
    lamports = int(found[1]) * LAMPORTS_PER_SOL + int((found[2] or "").ljust(9, "0"))
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
