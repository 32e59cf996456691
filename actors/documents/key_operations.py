"""The paths of named keys and of the hourly limit, and the shapes of their bodies.

Implements: decisions, "Named keys" and "Hourly limit"; README, the same headings. Pure data.
"""

from actors.accounts.hourly_limit import CREDITS_MAX, LIFT_SECONDS_MAX, Stage
from actors.accounts.named_keys import GRACE_SECONDS_MAX, LIST_MAX, NAME_MAX, PER_SECOND_MAX
from actors.documents.operation import Access, Operation
from actors.documents.schemas import COUNT, OK, SECONDS, STRING, Schema, body, list_of, or_null, record, ref

_TIME_TEXT: Schema = {"type": "string", "format": "date-time"}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": NAME_MAX}
_ID: Schema = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
_TEXTS = or_null(list_of(STRING, maxItems=LIST_MAX))
_LIMITS: dict[str, Schema] = {
    "credits_a_day": {**or_null(COUNT), "description": "of each day of UTC"},
    "credits_total": {**or_null(COUNT), "description": "for ever"},
    "requests_per_second": or_null({"type": "integer", "minimum": 1, "maximum": PER_SECOND_MAX}),
    "methods": {
        **_TEXTS,
        "description": "methods and classes of GET /pricing, STREAMS, BULK, RELAY, ACCOUNT; null: all",
    },
    "origins": {**_TEXTS, "description": "of pages in browsers, as https://app.example; null: any"},
    "addresses": {**_TEXTS, "description": "of clients, or networks, as 203.0.113.0/24; null: any"},
    "expires_at": or_null({"anyOf": [SECONDS, _TIME_TEXT]}),
}
_KEY = record(
    id=COUNT,
    name=_NAME,
    prefix=STRING,
    status={"type": "string", "enum": ["active", "frozen", "deleted"]},
    created_at=_TIME_TEXT,
    credits_a_day=or_null(COUNT),
    credits_total=or_null(COUNT),
    requests_per_second=or_null(COUNT),
    methods=list_of(STRING),
    origins=list_of(STRING),
    addresses=list_of(STRING),
    expires_at=or_null(_TIME_TEXT),
    spent_today=COUNT,
    spent_total=COUNT,
    held=COUNT,
    parent=or_null(COUNT),
    former_key_good_until=or_null(_TIME_TEXT),
)
_AN_HOUR = or_null({"anyOf": [{"type": "integer", "minimum": 1, "maximum": CREDITS_MAX}, {"const": "learnt"}]})
KEY_SCHEMAS: dict[str, Schema] = {
    "HourlyLimit": record(
        ok=OK,
        setting=_AN_HOUR,
        credits_an_hour=or_null(COUNT),
        basis=or_null({"type": "string", "enum": ["set", "learnt"]}),
        usual_credits_an_hour=or_null(COUNT),
        spent_this_hour=COUNT,
        stage={"type": "string", "enum": [stage.value for stage in Stage]},
        hour_ends_at=_TIME_TEXT,
        lifted_until=or_null(_TIME_TEXT),
    ),
    "NamedKeys": record(keys=list_of(_KEY), next_after=or_null(COUNT)),
    "NamedKey": record(ok=OK, key=_KEY),
    "NewNamedKey": record(ok=OK, id=COUNT, key=_KEY, api_key=STRING, message=STRING),
}


def _changes(
    endpoint: str, summary: str, answer: str, request: Schema | None = None, *, needs_body: bool = True
) -> Operation:
    return Operation(
        endpoint,
        "account",
        summary,
        ref(answer),
        Access.WALLET,
        request=request,
        needs_body=needs_body,
        successes=(201,) if endpoint == "POST /account/keys" else (200,),
        refusals=(403, 404, 503),
        is_limited=True,
        example={"name": "bot", "credits_a_day": 50_000} if endpoint == "POST /account/keys" else None,
    )


KEYS = (
    Operation(
        "GET /account/hourly-limit",
        "account",
        "Shows the most credits that the account spends in an hour, and what it has spent in this one.",
        ref("HourlyLimit"),
        Access.ACCOUNT,
        refusals=(403, 404, 503),
        is_limited=True,
    ),
    _changes(
        "PATCH /account/hourly-limit",
        "Changes the hourly limit, or lifts it for a while.",
        "HourlyLimit",
        {
            **body(
                {
                    "credits_an_hour": {**_AN_HOUR, "description": "learnt: ten times a usual hour; null: no limit"},
                    "lift_seconds": {"type": "integer", "minimum": 0, "maximum": LIFT_SECONDS_MAX},
                }
            ),
            "minProperties": 1,
        },
    ),
    Operation(
        "GET /account/keys",
        "account",
        "Lists the named keys, with what they have spent. A named key sees itself alone.",
        ref("NamedKeys"),
        Access.ACCOUNT,
        query=(("parent", _ID), ("after", _ID)),
        refusals=(403, 404, 503),
        is_limited=True,
    ),
    _changes(
        "POST /account/keys", "Makes a named key with limits of its own.", "NewNamedKey", body(_LIMITS, name=_NAME)
    ),
    _changes(
        "PATCH /account/keys/{id}",
        "Changes a named key: its name, its limits, or freezes it.",
        "NamedKey",
        body({**_LIMITS, "name": _NAME, "frozen": {"type": "boolean"}}),
    ),
    _changes("DELETE /account/keys/{id}", "Ends a named key for good.", "NamedKey"),
    _changes(
        "POST /account/keys/{id}/rotate",
        "Gives a key that the wallet has made a new text. The former one is good for the grace that is asked for.",
        "NewNamedKey",
        body({"grace_seconds": {"type": "integer", "minimum": 0, "maximum": GRACE_SECONDS_MAX, "default": 0}}),
        needs_body=False,
    ),
)
