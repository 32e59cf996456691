"""The shapes of receipts and of the keys that sign statements, as JSON schemas; and all schemas together.

Implements: decisions, "Signed roots"; actors/accounts/README.md, "Receipts". Pure data.
"""

from types import MappingProxyType

from actors.documents.key_operations import KEY_SCHEMAS
from actors.documents.schemas import (
    COUNT,
    ENTRY_TYPES,
    INTEGER,
    OTHERS,
    PUBKEY,
    SECONDS,
    STRING,
    Schema,
    list_of,
    or_null,
    record,
)

_HASH: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_CHAINED_ENTRY = record(
    number=COUNT,
    at_ms=COUNT,
    type=COUNT,
    amount=INTEGER,
    balance=COUNT,
    outcome=COUNT,
    operation=STRING,
    parcels=STRING,
    method=STRING,
    description=STRING,
)
_RECEIPT = record(
    version={"const": 1},
    account=PUBKEY,
    entry=_CHAINED_ENTRY,
    before=_HASH,
    first=COUNT,
    last=COUNT,
    head=_HASH,
    entry_path=list_of(_HASH),
    account_index=COUNT,
    account_path=list_of(_HASH),
    statement=STRING,
    key=STRING,
    signature=STRING,
)
_END = record(balance=COUNT, number=COUNT, hash=or_null(_HASH), receipt=or_null(STRING))
_RECEIPTS: dict[str, Schema] = {
    "Bill": record(
        account=PUBKEY,
        month={"type": "string", "pattern": "^2[01][0-9]{2}-(0[1-9]|1[0-2])$"},
        opening=_END,
        lines=list_of(
            record(
                day=or_null({"type": "string", "format": "date"}),
                type={"type": "string", "enum": ENTRY_TYPES},
                method=or_null(STRING),
                entries=COUNT,
                credits=INTEGER,
                first=COUNT,
                last=COUNT,
                digest=_HASH,
            )
        ),
        closing=_END,
    ),
    "Receipts": record({"pending": COUNT, "next_cursor": or_null(STRING)}, receipts=list_of(_RECEIPT)),
    "Consistency": record(account=PUBKEY, after=COUNT, entries=list_of(_CHAINED_ENTRY)),
    "LedgerKeys": record(
        keys=list_of(
            record(
                {"retired_at": or_null(SECONDS)},
                id=STRING,
                algorithm={"const": "Ed25519"},
                public_key=_HASH,
                made_at=SECONDS,
            )
        )
    ),
}

SCHEMAS: MappingProxyType[str, Schema] = MappingProxyType({**OTHERS, **_RECEIPTS, **KEY_SCHEMAS})
