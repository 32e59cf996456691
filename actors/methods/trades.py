"""Parameters of executeSnipe and executeSell: amounts read from their exact text, never through a float.

Implements: interface, "executeSnipe" and "executeSell"; threat 34. Pure.

JSON gives a number as text, and parsers turn it into a float. 0.1 SOL is no float, so the text itself is read. Every
form of a JSON number is taken, as encoders choose it (Python writes 0.00005 as 5e-05), if its exact value has at most
nine digits after the point. A string is written by hand: plain digits, without an exponent.
"""

import re
from decimal import Decimal
from typing import Any

import msgspec

from actors.methods import forms, results
from actors.methods.entries import Question, as_first, encoded, own
from actors.methods.forms import Form, Parameter, an_object, checks_of, documented, needed, up_to
from actors.methods.prices import MethodClass
from actors.methods.values import U64_MAX, InvalidError, at, at_most, fields, pubkey, shown, u64

SLIPPAGE_BPS, SLIPPAGE_BPS_MAX = 500, 10_000
PRIORITY_FEE_MICRO_LAMPORTS = 100_000
LAMPORTS_PER_SOL = 10**9
_SOL = re.compile(r"(0|[1-9][0-9]{0,10})(?:\.([0-9]{1,9}))?")
# Longer ones are no amount of SOL, and a large exponent would make an integer of as many digits.
_JSON_NUMBER = re.compile(r"[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,2})?")
_UNITS = re.compile(r"0|[1-9][0-9]{0,19}")
_OBJECTS_DECODER = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_OPTIONS = {
    "slippage_bps": up_to(SLIPPAGE_BPS_MAX, default=SLIPPAGE_BPS),
    "priority_fee_micro_lamports": Form(u64, {"type": "integer", "minimum": 0, "default": PRIORITY_FEE_MICRO_LAMPORTS}),
}
_CHECKS = checks_of(_OPTIONS)


class SnipeQuestion(Question, frozen=True):
    """executeSnipe. mint: base58; budget_lamports: above zero; slippage_bps: 0 to 10,000."""

    mint: str
    budget_lamports: int
    slippage_bps: int
    priority_fee_micro_lamports: int


class SellQuestion(Question, frozen=True):
    """executeSell, as above. tokens: base units, above zero."""

    mint: str
    tokens: int
    slippage_bps: int
    priority_fee_micro_lamports: int


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


def _request(description: str, amount: str, form: Form) -> Parameter:
    fields_of = {"mint": forms.PUBKEY, amount: form, **_OPTIONS}
    return needed("request", an_object(description, ("mint", amount), **fields_of))


METHODS = (
    own(
        "executeSnipe",
        MethodClass.TRADE_BUILD,
        "Builds an unsigned transaction that buys a token on its bonding curve.",
        "Use it while a token trades on its bonding curve; have the wallet sign the transaction, then send it.",
        results.BUY,
        _request("the purchase", "amount_sol", documented(type=["number", "string"], description="budget in SOL")),
        example=({"mint": forms.EXAMPLE_KEY, "amount_sol": 0.1},),
        rule=_snipe,
        named_rule=as_first(_snipe),
        for_caller=True,
    ),
    own(
        "executeSell",
        MethodClass.TRADE_BUILD,
        "Builds an unsigned transaction that sells a token on its bonding curve.",
        "Use it while a token trades on its bonding curve; have the wallet sign the transaction, then send it.",
        results.SALE,
        _request(
            "the sale",
            "token_amount",
            documented(type=["integer", "string"], description="base units of the token"),
        ),
        example=({"mint": forms.EXAMPLE_KEY, "token_amount": 1_000_000},),
        rule=_sell,
        named_rule=as_first(_sell),
        for_caller=True,
    ),
)
