"""The settings of the stream, and the limits in the form that providers publish."""

import json
from pathlib import Path

import msgspec
import pytest

from devnode.geyser.settings import (
    NO_LIMITS,
    BadFilter,
    GeyserSettings,
    check_any,
    check_count,
    read_keys,
    read_limits,
    read_names,
)
from devnode.settings import Settings, SettingsError

from .samples import KEYS

SECTION = {
    "accounts": {"max": 1, "any": False, "account_max": 10, "account_reject": [str(KEYS[0])], "data_slice_max": 2},
    "slots": {"max": 1},
    "transactions": {"max": 1, "any": False, "account_include_max": 10},
    "blocks": {"max": 1, "account_include_any": False, "include_accounts": False},
    "blocks_meta": {"max": 1},
    "entries": {"max": 1},
}


def test_a_configuration_of_the_plugin_is_read() -> None:
    """The section `filters` alone and the whole file are accepted."""
    read = read_limits(json.dumps(SECTION).encode())
    assert read.accounts.account_reject == frozenset({str(KEYS[0])})
    assert not read.transactions.any and not read.blocks.include_accounts and read.blocks.include_transactions
    assert read_limits(json.dumps({"libpath": "x", "grpc": {"address": "y", "filters": SECTION}}).encode()) == read


def test_without_limits_all_filters_are_allowed() -> None:
    """These are Yellowstone's defaults."""
    assert read_limits(b"{}") == NO_LIMITS
    assert NO_LIMITS.accounts.any and NO_LIMITS.blocks.include_entries


@pytest.mark.parametrize("text", [b"no json", b'{"acounts": {}}', b'{"slots": {"max": "many"}}', b"[]"])
def test_a_mistake_in_the_file_is_an_error(text: bytes) -> None:
    """A misspelt limit must not be ignored."""
    with pytest.raises(msgspec.DecodeError):
        read_limits(text)


def test_a_name_may_have_128_bytes() -> None:
    """The limit counts bytes, not characters."""
    assert read_names(["é" * 64, "a" * 128], 2) == ["a" * 128, "é" * 64]
    with pytest.raises(BadFilter, match=r"oversized filter name \(max allowed size 128\), found 130"):
        read_names(["é" * 65], 1)


def test_counts_and_emptiness_are_checked() -> None:
    """A number equal to the limit is allowed."""
    check_count(2, 2)
    check_any(is_empty=True, allowed=True)
    check_any(is_empty=False, allowed=False)
    with pytest.raises(BadFilter):
        check_count(3, 2)
    with pytest.raises(BadFilter):
        check_any(is_empty=True, allowed=False)


def test_a_repeated_key_is_read_once() -> None:
    """As in Yellowstone, a repeated key still counts twice against the limit."""
    assert read_keys([str(KEYS[0])] * 2, 2) == {KEYS[0]}
    with pytest.raises(BadFilter, match="Max amount of Pubkeys reached, only 1 allowed"):
        read_keys([str(KEYS[0])] * 2, 1)


def test_mistakes_are_reported_together_with_those_of_the_node() -> None:
    """One error has all mistakes, each with the name of its flag."""
    geyser = GeyserSettings(port=70_000, tls_port=-1, replay_slots=10_001, tls_key=Path("key.pem"))
    with pytest.raises(SettingsError) as caught:
        Settings(data_dir=Path("x"), slot_ms=1, geyser=geyser)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        *("--grpc-port", "--grpc-tls-port", "--grpc-replay-slots", "--slot-ms"),
        "--grpc-tls-cert and --grpc-tls-key",
    ]
