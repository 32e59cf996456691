"""Checks the parameters of any method before anything is charged.

Implements: interface, JSON-RPC gateway rules 4 and 7; the node's own limits (a call that the node is bound to refuse
should not cost its caller a credit). Every callable method has a rule, even if it only limits the number of parameters.
The node judges faults that need the chain (a missing account, a purged block), and its error is billed as published.
Pure. The rules are in the entries of the methods.
"""

from types import MappingProxyType
from typing import Any

from actors.errors import Err, Refusal
from actors.methods.catalog import METHODS
from actors.methods.entries import Rule
from actors.methods.values import InvalidError

RULES: MappingProxyType[str, Rule] = MappingProxyType(
    {name: row.rule for name, row in METHODS.items() if row.rule is not None}
)


def check(method: str, arguments: list[Any], raw: bytes) -> bytes | Refusal:
    """The parameter bytes to send, or INVALID_PARAMS with a sentence that names the parameter."""
    rule = RULES.get(method)
    if rule is None:
        return raw
    try:
        return rule(arguments, raw)
    except InvalidError as fault:
        return Refusal(Err.INVALID_PARAMS, str(fault))
