import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import WITHDRAW_AUTHORITY
from actors.launch_programs.borsh import empty
from actors.launch_programs.events import (
    LOG_PREFIX,
    SELF_CPI_PREFIX,
    CompleteEvent,
    CompletePumpAmmMigrationEvent,
    CreateEvent,
    CreatePoolEvent,
    Event,
    ExtendAccountEvent,
    InitUserVolumeAccumulatorEvent,
    TradeEvent,
    decode_event,
    encode_event,
    log_line,
    self_cpi_data,
)

from .samples import calls, sample, transaction_names

KINDS: tuple[type[Event], ...] = (
    *(CreateEvent, TradeEvent, CompleteEvent, CompletePumpAmmMigrationEvent),
    *(CreatePoolEvent, ExtendAccountEvent, InitUserVolumeAccumulatorEvent),
)
EVENTS = ("create", "trade_v0", "trade_v1")


def shown(value: Any) -> Any:
    return str(value) if isinstance(value, Pubkey) else value


@pytest.mark.parametrize("name", EVENTS)
def test_events_of_three_versions(name: str) -> None:
    """Samples of the chain are decoded; fields of later versions are zero."""
    found = sample(f"event_pumpfun_anchor_self_cpi_{name}")
    event = decode_event(bytes.fromhex(found["payload"]["data_hex"]))
    assert event is not None and type(event).__name__ == found["expected"]["decoded"]["_event"]
    wanted = {field: value for field, value in found["expected"]["decoded"].items() if field[0] != "_"}
    assert {field: shown(getattr(event, field)) for field in wanted} == wanted
    missing = found["expected"]["decoded"]["_missing_from"]
    later = [kind for field, kind in event.FIELDS[[one for one, _ in event.FIELDS].index(missing) :]]
    assert [getattr(event, field) for field, _ in event.FIELDS[-len(later) :]] == [empty(kind) for kind in later]


@pytest.mark.parametrize("name", transaction_names())
def test_events_of_whole_transactions(name: str) -> None:
    """The launches and trades of each sample are found in order, with their amounts."""
    events = [decode_event(data) for _, data in calls(name) if data[:8] == SELF_CPI_PREFIX]
    signals: list[tuple[object, ...]] = []
    for event in events:
        assert event is not None
        if isinstance(event, TradeEvent):
            signals.append(("trade", str(event.mint), event.is_buy, event.sol_amount, event.token_amount))
        elif isinstance(event, CreateEvent):
            signals.append(("newPair", str(event.mint), event.name, event.symbol, str(event.bonding_curve)))
    wanted = [signal for signal in sample(name)["expected"]["signals"] if signal["kind"] in ("trade", "newPair")]
    assert signals == [
        ("trade", one["mint"], one["is_buy"], one["sol_amount"], one["token_amount"])
        if one["kind"] == "trade"
        else ("newPair", one["mint"], *(one["event"][field] for field in ("name", "symbol", "bonding_curve")))
        for one in wanted
    ]


def test_the_log_line_carries_the_same_bytes() -> None:
    """On the chain, a launch has its event in the log and in an inner instruction."""
    logs = sample("pump_create_v2_buy_blocksubscribe")["payload"]["meta"]["logMessages"]
    logged = [base64.b64decode(line.removeprefix(LOG_PREFIX)) for line in logs if line.startswith(LOG_PREFIX)]
    called = [data[8:] for _, data in calls("pump_create_v2_buy_blocksubscribe") if data[:8] == SELF_CPI_PREFIX]
    assert logged == called
    for data in logged:
        event = decode_event(data)
        assert event is not None and encode_event(event).startswith(data)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_events_decode_to_what_was_encoded(kind: type[Event]) -> None:
    shares = ((WITHDRAW_AUTHORITY, 500),)
    values: dict[str, Any] = {"key": WITHDRAW_AUTHORITY, "string": "näme", "bool": True, "shares": shares}
    event = kind(**{name: values.get(one, 7) for name, one in kind.FIELDS})
    assert decode_event(encode_event(event)) == event == decode_event(self_cpi_data(event))
    assert base64.b64decode(log_line(event).removeprefix(LOG_PREFIX)) == encode_event(event)
    assert decode_event(encode_event(event)[:20]) is None


@given(data=st.binary(max_size=200), kind=st.sampled_from(KINDS))
def test_hostile_bytes_are_no_event_or_one(data: bytes, kind: type[Event]) -> None:
    event = decode_event(kind.DISCRIMINATOR + data)
    assert event is None or isinstance(event, kind)
    assert decode_event(b"otherone" + data) is None
