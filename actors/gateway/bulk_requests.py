"""Checks the list of a bulk request entry by entry, and makes the one hold that covers it.

Implements: interface specification, "Bulk endpoints"; decisions, "bulk list length".
Pure. Every refusal here is free. An entry that occurs twice is looked up, answered and charged once.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import orjson

from actors import catalog
from actors.calls import HoldItem
from actors.catalog import BulkRow
from actors.errors import Err, Refusal
from actors.gateway import jsonrpc, params_values
from actors.gateway.admission import AdmittedCall, Plan
from actors.method_requests import BulkQuestion, encoded

ROWS: MappingProxyType[bytes, BulkRow] = MappingProxyType({b"/" + row.name.encode(): row for row in catalog.BULK})

_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "address": params_values.pubkey,
    "owner": params_values.pubkey,
    "signature": params_values.signature,
}


def admit(body: bytes, row: BulkRow) -> AdmittedCall | Refusal:
    """INVALID_REQUEST with the index of the first bad entry, or what the pipeline needs to hold, ask and settle."""
    items = _listed(body, row)
    if isinstance(items, Refusal):
        return items
    ceiling = row.credits_per_item * len(items)
    plan = Plan(row.name, ceiling, row.timeout_ms, (HoldItem(row.name, ceiling),), sends=False)
    return AdmittedCall(jsonrpc.NO_ID, plan, encoded(BulkQuestion(items)))


def _listed(body: bytes, row: BulkRow) -> tuple[str, ...] | Refusal:
    """The list without repetitions, each entry where it occurs first."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _refused("the body is not valid JSON in UTF-8")
    # Exactly one name: an ignored option would be charged for, and a second list would be ambiguous.
    if type(value) is not dict or list(value) != [row.items] or type(value[row.items]) is not list:
        return _refused(f'the body must be {{"{row.items}": [...]}}')
    listed = value[row.items]
    if not 1 <= len(listed) <= row.items_max:
        return _refused(f"{row.items}: {len(listed)} entries, 1 to {row.items_max} are allowed")
    for index, item in enumerate(listed):
        try:
            _CHECKS[row.item](item, f"{row.items}[{index}]")
        except params_values.InvalidError as fault:
            return _refused(str(fault))
    if body.count(b":") != 1:  # Entries have no colons, so each colon follows a name.
        return _refused(f"{row.items} occurs twice")
    return tuple(dict.fromkeys(listed))


def _refused(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
