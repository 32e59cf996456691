"""JSON schemas of the results of each method, as far as they are known.

Implements: interface, "sendAndConfirm result", "getTransactionHistory result", "suggestPriorityFee result" and "Trade
builder results"; the results that Agave's RPC documents.
Pure data. Nodes answer for themselves: a schema names what every version of a node has had, admits further fields
everywhere, and says nothing of values whose form a client chooses by an encoding. `{}` admits anything.
"""

from typing import Any

from actors.methods.forms import Schema, nullable

ANY: Schema = {}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def record(optional: dict[str, Schema] | None = None, /, **required: Schema) -> Schema:
    """An object that has these fields. optional: fields that may be absent, or whose names are no Python names."""
    schema: dict[str, Any] = {"type": "object", "properties": {**required, **(optional or {})}}
    return schema | ({"required": list(required)} if required else {})


def or_null(schema: Schema) -> Schema:
    return nullable(schema)


def at_slot(value: Schema) -> Schema:
    """A value with the slot at which the node read it."""
    return record(context=record(slot=INTEGER), value=value)


_MAYBE_INTEGER, _MAYBE_TEXT = or_null(INTEGER), or_null(TEXT)
_ACCOUNT = record(
    {"space": INTEGER, "rentEpoch": INTEGER},
    lamports=INTEGER,
    owner=TEXT,
    data=ANY,
    executable=FLAG,
)
_AMOUNT = record(
    {"uiAmount": or_null(NUMBER), "uiAmountString": TEXT},
    amount={"type": "string", "description": "base units: divide by 10 to the power of `decimals`"},
    decimals=INTEGER,
)
_VOTE_ACCOUNT = record(votePubkey=TEXT, nodePubkey=TEXT, activatedStake=INTEGER, commission=INTEGER)
_SIMULATED = {"logs": or_null(array(TEXT)), "unitsConsumed": _MAYBE_INTEGER}
_OUTCOME: dict[str, Schema] = {
    "signature": TEXT,
    "status": {"type": "string", "description": "confirmed, failed, unknown or pending"},
    "confirmed": FLAG,
    "slot": _MAYBE_INTEGER,
    "confirmations": _MAYBE_INTEGER,
    "landing_time_ms": _MAYBE_INTEGER,
    "legs_attempted": array(TEXT),
    "retry_count": INTEGER,
    "charged_credits": INTEGER,
    "error": _MAYBE_TEXT,
}

# Accounts and tokens.
LAMPORTS: Schema = {"type": "integer", "description": "lamports"}
SLOT: Schema = {"type": "integer", "description": "a slot"}
KEY: Schema = {"type": "string", "description": "public key in base58"}
SIGNATURE: Schema = {"type": "string", "description": "signature in base58"}
BALANCE = at_slot(LAMPORTS)
ACCOUNT = at_slot(or_null(_ACCOUNT))
ACCOUNTS = at_slot(array(or_null(_ACCOUNT)))
TOKEN_AMOUNT = at_slot(_AMOUNT)
TOKEN_ACCOUNTS = at_slot(array(record(pubkey=TEXT, account=_ACCOUNT)))
VOTE_ACCOUNTS = record(current=array(_VOTE_ACCOUNT), delinquent=array(_VOTE_ACCOUNT))

# The chain.
SLOTS = array(INTEGER)
KEYS = array(TEXT)
TIME: Schema = {"type": ["integer", "null"], "description": "Unix seconds"}
VALID = at_slot(FLAG)
BLOCK_COMMITMENT = record(commitment=or_null(array(INTEGER)), totalStake=INTEGER)
BLOCK_PRODUCTION = at_slot(record(byIdentity={"type": "object"}, range=record(firstSlot=INTEGER, lastSlot=INTEGER)))
CLUSTER_NODES = array(record({"gossip": _MAYBE_TEXT, "rpc": _MAYBE_TEXT, "version": _MAYBE_TEXT}, pubkey=TEXT))
EPOCH_SCHEDULE = record(
    slotsPerEpoch=INTEGER,
    leaderScheduleSlotOffset=INTEGER,
    warmup=FLAG,
    firstNormalEpoch=INTEGER,
    firstNormalSlot=INTEGER,
)
SNAPSHOT_SLOTS = record({"incremental": _MAYBE_INTEGER}, full=INTEGER)
IDENTITY = record(identity=TEXT)
INFLATION_GOVERNOR = record(initial=NUMBER, terminal=NUMBER, taper=NUMBER, foundation=NUMBER, foundationTerm=NUMBER)
INFLATION_RATE = record(total=NUMBER, validator=NUMBER, foundation=NUMBER, epoch=INTEGER)
LEADERS: Schema = {
    "type": ["object", "null"],
    "additionalProperties": SLOTS,
    "description": "of each leader, its slots counted from the first of the epoch; null: no such epoch is known",
}
SAMPLES = array(record(slot=INTEGER, numTransactions=INTEGER, numSlots=INTEGER, samplePeriodSecs=INTEGER))
VERSION = record({"feature-set": _MAYBE_INTEGER}, **{"solana-core": TEXT})
EPOCH = record(
    {"transactionCount": _MAYBE_INTEGER},
    absoluteSlot=INTEGER,
    blockHeight=INTEGER,
    epoch=INTEGER,
    slotIndex=INTEGER,
    slotsInEpoch=INTEGER,
)
BLOCKHASH = at_slot(record(blockhash=TEXT, lastValidBlockHeight=INTEGER))
BLOCK = or_null(
    record(
        {
            "blockTime": _MAYBE_INTEGER,
            "blockHeight": _MAYBE_INTEGER,
            "transactions": {"type": "array"},
            "signatures": array(TEXT),
            "rewards": or_null({"type": "array"}),
        },
        blockhash=TEXT,
        previousBlockhash=TEXT,
        parentSlot=INTEGER,
    )
)

# Transactions.
STATUSES = at_slot(
    array(
        or_null(
            record({"confirmationStatus": _MAYBE_TEXT}, slot=INTEGER, confirmations=_MAYBE_INTEGER, err=ANY),
        )
    )
)
SIGNATURES = array(
    record(
        {"memo": _MAYBE_TEXT, "blockTime": _MAYBE_INTEGER, "confirmationStatus": _MAYBE_TEXT},
        signature=TEXT,
        slot=INTEGER,
        err=ANY,
    )
)
TRANSACTION = or_null(
    record(
        {"blockTime": _MAYBE_INTEGER, "version": ANY}, slot=INTEGER, transaction=ANY, meta=or_null({"type": "object"})
    )
)
HISTORY = record(
    transactions=array(
        record(
            signature=TEXT,
            found=FLAG,
            slot=INTEGER,
            block_time=_MAYBE_INTEGER,
            fee=_MAYBE_INTEGER,
            error=ANY,
            enriched=record(
                token_transfers={"type": "array"},
                sol_transfers={"type": "array"},
                program_interactions={"type": "array"},
                summary=TEXT,
            ),
            explanation=TEXT,
        )
    ),
    count=INTEGER,
)
_ASSET_FIELDS: dict[str, Schema] = {
    "interface": TEXT,
    "id": TEXT,
    "content": record({"json_uri": TEXT}, metadata=record(name=TEXT, symbol=TEXT)),
    "ownership": record(owner=_MAYBE_TEXT, ownership_model=TEXT),
    "token_info": record(
        {"balance": INTEGER, "symbol": TEXT}, supply=_MAYBE_INTEGER, decimals=_MAYBE_INTEGER, token_program=TEXT
    ),
}
ASSET = record(**_ASSET_FIELDS)
ASSET_BATCH = array(or_null(ASSET))
_PAGE_FIELDS: dict[str, Schema] = {"last_indexed_slot": INTEGER, "total": INTEGER, "limit": INTEGER}
ASSETS = record(
    {"owner": TEXT, "slot": INTEGER, "grand_total": INTEGER, "nativeBalance": record(lamports=INTEGER)},
    **_PAGE_FIELDS,
    page=_MAYBE_INTEGER,
    cursor=_MAYBE_TEXT,
    items=array(
        record(
            {
                "kind": _MAYBE_TEXT,
                "token_program": TEXT,
                "amount": TEXT,
                "decimals": _MAYBE_INTEGER,
                "supply": _MAYBE_TEXT,
                "token_accounts": array(record(address=TEXT, amount=TEXT)),
            },
            **_ASSET_FIELDS,
        )
    ),
)
OWNED_TOKEN_ACCOUNTS = record(
    **_PAGE_FIELDS,
    page=_MAYBE_INTEGER,
    cursor=_MAYBE_TEXT,
    token_accounts=array(record(address=TEXT, mint=TEXT, owner=TEXT, amount=INTEGER, frozen=FLAG)),
)
SIMULATION = at_slot(record(_SIMULATED, err=ANY))
BUNDLE_SIMULATION = at_slot(record(summary=ANY, transactionResults=array(record(_SIMULATED, err=ANY))))
BUNDLE_ID: Schema = {"type": "string", "description": "the id of the bundle"}
OUTCOME = record(**_OUTCOME)
SEND_STATUS = record(**_OUTCOME, updated_at=INTEGER, legs={"type": "object", "additionalProperties": {"type": "array"}})

# Fees.
MESSAGE_FEE = at_slot(
    {"type": ["integer", "null"], "description": "lamports; null: the blockhash is not valid any more"}
)
RECENT_FEES = array(record(slot=INTEGER, prioritizationFee=INTEGER))
SUGGESTED_FEE = record(
    suggested_fee_microlamports=INTEGER,
    urgency=TEXT,
    all_levels=record(
        low=INTEGER,
        medium=INTEGER,
        high=INTEGER,
        veryHigh=INTEGER,
        sample_count=INTEGER,
        paid_slot_count=INTEGER,
        basis=TEXT,
    ),
    scoped_to_accounts=FLAG,
)
FEE_ESTIMATE = record(
    {"priorityFeeLevels": {"type": "object", "additionalProperties": NUMBER}},
    priorityFeeEstimate=NUMBER,
    basis=record(
        {"accountTransactions": INTEGER},
        source=TEXT,
        slots=INTEGER,
        transactions={"type": ["integer", "null"]},
    ),
)

# Trades, and the service itself.
_UNSIGNED: Schema = {"type": "string", "description": "a v0 transaction in base64, to be signed by the caller's wallet"}
_OF_A_TRADE: dict[str, Schema] = {"fee_credits": INTEGER, "mint": TEXT, "bonding_curve": TEXT}
BUY = record(unsigned_tx_base64=_UNSIGNED, tokens_out=INTEGER, max_sol_cost_lamports=INTEGER, **_OF_A_TRADE)
SALE = record(unsigned_tx_base64=_UNSIGNED, sol_out_lamports=INTEGER, min_sol_output_lamports=INTEGER, **_OF_A_TRADE)
OPENRPC = record(openrpc=TEXT, info={"type": "object"}, methods={"type": "array"})
