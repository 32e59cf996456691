"""Checks the parameters of any method before anything is charged.

Implements: interface, JSON-RPC gateway rules 4 and 7; the node's own limits (a call that the node is bound to refuse
should not cost its caller a credit). Every callable method has a rule, even if it only limits the number of parameters.
The node judges faults that need the chain (a missing account, a purged block), and its error is billed as published.
Pure. The rules are in the entries of the methods.
"""

from types import MappingProxyType
from typing import Any

from actors.errors import Err, Refusal
from actors.methods.catalog import DOCUMENTS, METHODS
from actors.methods.entries import NamedRule, Rule
from actors.methods.values import InvalidError, shown

RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {name: row.rule for name, row in METHODS.items() if row.rule is not None}
)
NAMED_RULES: MappingProxyType[str, NamedRule] = MappingProxyType(
    {name: row.named_rule for name, row in METHODS.items() if row.named_rule is not None}
)


def check(method: str, arguments: list[Any] | dict[str, Any], raw: bytes) -> bytes | Refusal:
    """The parameter bytes to send, or INVALID_PARAMS with a sentence that names the parameter."""
    try:
        if type(arguments) is dict and method in NAMED_RULES:
            return NAMED_RULES[method](arguments, raw)
        positions = arguments if type(arguments) is list else by_position(method, arguments)
        rule = RULES.get(method)
        return raw if rule is None else rule(positions, raw)
    except InvalidError as fault:
        return Refusal(Err.INVALID_PARAMS, str(fault))


def by_position(method: str, arguments: list[Any] | dict[str, Any]) -> list[Any]:
    """Return the arguments, or raise InvalidError where they are given by name to a method that takes positions."""
    if isinstance(arguments, list):
        return arguments
    document = DOCUMENTS.get(method)
    names = ", ".join(parameter.name for parameter in document.parameters) if document is not None else "..."
    raise InvalidError(f'"params" must be an array: {shown(method)} takes its parameters by position, as [{names}]')
