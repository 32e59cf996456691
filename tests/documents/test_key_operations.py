from typing import Any

import jsonschema

from actors.accounts.hourly_commands import HourlyState
from actors.accounts.hourly_limit import NONE_SET, HourlySetting
from actors.accounts.key_requests import KeyState
from actors.accounts.named_keys import KeyLimits
from actors.documents.key_operations import KEY_SCHEMAS, KEYS
from actors.documents.receipt_schemas import SCHEMAS
from actors.gateway.pages.hourly_limit import HourlyLimitPages, hourly_limit_body
from actors.gateway.pages.keys import KeyPages, key_body


def test_each_path_of_named_keys_has_its_row() -> None:
    nobody: Any = None
    pages = [*HourlyLimitPages(nobody).pages(), *KeyPages(nobody).pages()]
    assert [row.endpoint for row in KEYS] == [page.endpoint for page in pages]


def test_the_hourly_limit_is_what_the_documents_say() -> None:
    for setting, credits in (
        (HourlySetting(5, 1_800_000_000), 5),
        (HourlySetting(NONE_SET), None),
        (HourlySetting(), 9),
    ):
        body = hourly_limit_body(HourlyState(setting, credits, "set", None, 3, "slowed", 1_700_000_000))
        jsonschema.validate(body, KEY_SCHEMAS["HourlyLimit"])
        assert set(body) == set(KEY_SCHEMAS["HourlyLimit"]["required"])


def test_what_the_pages_answer_is_what_the_documents_say() -> None:
    """With all limits and with none."""
    every = KeyLimits(1, 2, 3, ("getSlot",), ("https://a.example",), ("10.0.0.0/8",), 1_900_000_000)
    for limits in (every, KeyLimits()):
        body = key_body(KeyState(1, "bot", "srpc_live_abcd", "frozen", 1_700_000_000, limits, 5, 4, 3, 1_800_000_000))
        schema = {**KEY_SCHEMAS["NamedKeys"], "$defs": {}, "components": {"schemas": dict(SCHEMAS)}}
        lists = {name: list(body[name]) for name in ("methods", "origins", "addresses")}
        jsonschema.validate({"keys": [body | lists], "next_after": None}, schema)
        assert set(body) == set(KEY_SCHEMAS["NamedKeys"]["properties"]["keys"]["items"]["required"])
