"""The form of a signal on the wire."""

import msgspec

from actors.signals.events import SignalEvent

EVENT = SignalEvent("newPair", "P", "S", 5, None, ("a",))


def test_a_body_has_the_fields_of_the_interface() -> None:
    """Interface, "Signal event": fields that cannot be established are null, and present."""
    assert EVENT.body() == {
        "kind": "newPair",
        "program": "P",
        "signature": "S",
        "slot": 5,
        "mint": None,
        "accounts": ["a"],
        "quote_asset": None,
        "curve_type": None,
        "complete": None,
    }
    large = msgspec.structs.replace(EVENT, kind="largeSwap", lamports=7)
    assert large.body()["lamports"] == 7


def test_a_signal_is_signature_kind_and_mint() -> None:
    """Decisions, "one signal": another slot is the same signal, another coin is not."""
    assert msgspec.structs.replace(EVENT, slot=6).identity == EVENT.identity
    assert msgspec.structs.replace(EVENT, mint="m").identity != EVENT.identity


def test_a_stored_signal_is_read_back() -> None:
    data = msgspec.msgpack.encode(EVENT)
    assert msgspec.msgpack.decode(data, type=SignalEvent) == EVENT
