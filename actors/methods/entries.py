"""One JSON-RPC method as one entry: class, price, documentation, and the rule that checks its parameters.

Implements: interface, "Method classes and credits", JSON-RPC gateway rule 7; decisions, "pricing" and
"maxSupportedTransactionVersion".
Pure. A rule sees the parameters as values and as their exact bytes; the bytes go to the node unchanged unless the
interface adds something. The rule of a method that the product itself answers encodes a Question for its handler.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from actors.methods.forms import VERSION_KEY, MethodDocument, Parameter, Schema
from actors.methods.price_lists import PERCENT, PUBLIC, PriceList
from actors.methods.prices import CLASSES, Availability, MethodClass
from actors.methods.values import Check, InvalidError, at, at_most, fields
from actors.pricing_config import PricingConfig
from actors.units import Credits

Rule = Callable[[list[Any], bytes], bytes]
NamedRule = Callable[[dict[str, Any], bytes], bytes]  # Rule for parameters given by name.
_ENCODER = msgspec.json.Encoder()
_LIST_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


class Question(msgspec.Struct, frozen=True):
    """Checked parameters in one form, with every default filled in, as the handler in another context decodes them."""


def encoded(question: Question) -> bytes:
    return _ENCODER.encode(question)


@dataclass(frozen=True, slots=True)
class MethodRow:
    """document, rule: None where the method is not offered. for_caller: its handler must know whose call it is.
    named_rule: None where the method takes its parameters by position only."""

    name: str
    method_class: MethodClass
    availability: Availability
    credits: Credits | None
    timeout_ms: int
    document: MethodDocument | None = None
    rule: Rule | None = None
    for_caller: bool = False
    named_rule: NamedRule | None = None

    @property
    def callable(self) -> bool:
        return self.availability in (Availability.NODE, Availability.COMPOSED, Availability.RELAY)


def node(
    name: str,
    method_class: MethodClass,
    summary: str,
    when: str,
    result: Schema,
    *parameters: Parameter,
    example: tuple[Any, ...] | None = (),
    sketch: str = "",
    rule: Rule | None = None,
    named_rule: NamedRule | None = None,
) -> MethodRow:
    """A method that the node answers. rule: None where the forms of the parameters are the whole rule.

    when, result, sketch: as MethodDocument has them.
    """
    priced = CLASSES[method_class]
    document = MethodDocument(summary, parameters, example, when, result, sketch)
    checks = rule or takes(parameters)
    credits, timeout_ms = priced.credits, priced.timeout_ms
    return MethodRow(
        name, method_class, Availability.NODE, credits, timeout_ms, document, checks, named_rule=named_rule
    )


def own(
    name: str,
    method_class: MethodClass,
    summary: str,
    when: str,
    result: Schema,
    *parameters: Parameter,
    rule: Rule,
    example: tuple[Any, ...] | None = (),
    sketch: str = "",
    availability: Availability = Availability.COMPOSED,
    for_caller: bool = False,
    credits: Credits | None = None,
    named_rule: NamedRule | None = None,
) -> MethodRow:
    """A method that the product itself answers, or has the block engine answer. credits: None: its class's."""
    priced = CLASSES[method_class]
    price = priced.credits if credits is None else credits
    document = MethodDocument(summary, parameters, example, when, result, sketch)
    timeout_ms = priced.timeout_ms
    return MethodRow(name, method_class, availability, price, timeout_ms, document, rule, for_caller, named_rule)


def refused(names: str, method_class: MethodClass, availability: Availability) -> tuple[MethodRow, ...]:
    """Methods that are listed and not offered."""
    timeout_ms = CLASSES[method_class].timeout_ms
    return tuple(MethodRow(name, method_class, availability, None, timeout_ms) for name in names.split())


def takes(parameters: tuple[Parameter, ...]) -> Rule:
    """Make the rule of parameters that only have forms; those that are not required may be left out or null."""
    least = sum(parameter.is_required for parameter in parameters)
    words = [parameter.name.replace("pubkey", "public key").replace("_", " ") for parameter in parameters]
    named = [
        (f"parameter {index + 1} ({word})", parameter.form.check)
        for index, (word, parameter) in enumerate(zip(words, parameters, strict=True))
    ]

    most = len(named)

    def rule(arguments: list[Any], raw: bytes) -> bytes:
        if len(arguments) > most:
            at_most(arguments, most)
        if len(arguments) < least:
            at(arguments, len(arguments), words[len(arguments)])
        for index, value in enumerate(arguments):
            if value is not None or index < least:
                name, check = named[index]
                check(value, name)
        return raw

    return rule


def as_first(rule: Rule) -> NamedRule:
    """Make the rule of parameters by name, for a method whose one parameter is an object with the same names."""

    def named_rule(given: dict[str, Any], raw: bytes) -> bytes:
        return rule([given], b"[" + raw + b"]")

    return named_rule


def appended(raw: bytes, addition: bytes) -> bytes:
    """Append an element to a JSON array that is not empty."""
    return raw.rstrip()[:-1] + b"," + addition + b"]"


def replaced(raw: bytes, index: int, element: bytes) -> bytes:
    """Replace the element at this place, or append it; the other elements keep their bytes."""
    elements = [bytes(part) for part in _LIST_DECODER.decode(raw)]
    elements[index : index + 1] = [element]
    return b"[" + b",".join(elements) + b"]"


def with_version(arguments: list[Any], raw: bytes, checks: Mapping[str, Check]) -> bytes:
    """Add maxSupportedTransactionVersion 0 where it is missing: without it the node serves legacy transactions only.

    Parameter 2 may be absent, null, a bare encoding (Agave's older form) or an object.
    """
    value = arguments[1] if len(arguments) > 1 else None
    if type(value) is str:
        value = {"encoding": value}
    elif value is None:
        value = {}
    elif type(value) is not dict:
        raise InvalidError("parameter 2 must be an object or the name of an encoding")
    fields(value, "parameter 2", checks)
    if value.get(VERSION_KEY) is not None:
        return raw
    if len(arguments) == 1:
        return appended(raw, b'{"%b":0}' % VERSION_KEY.encode())
    return replaced(raw, 1, orjson.dumps({**value, VERSION_KEY: 0}))


def price_of(row: MethodRow, pricing: PricingConfig, prices: PriceList = PUBLIC) -> tuple[str, int | None]:
    """Return the price of a callable method in words, and the most that a call can cost; None: only a quote tells it.
    prices: of the list by which the account pays that is told so.

    Every document that names the price of a method has it from here, so none can tell another one.
    """
    if row.method_class is MethodClass.SEND_AND_CONFIRM:
        landing, base = prices.landing(row.name, pricing.landing_credits, pricing.base_credits)
        return f"{landing} credits if it lands, else {base}", landing
    if row.method_class is MethodClass.TRADE_BUILD:
        share = "" if prices.percent == PERCENT else f"{prices.percent} % of "
        fixed = prices.credits(row.name, pricing.build_credits)
        return f"{fixed} credits and {share}{pricing.trade_bps} basis points of the trade's SOL", None
    credits = prices.credits(row.name, row.credits or 0)
    return f"{credits} {'credit' if credits == 1 else 'credits'}" if credits else "free", credits
