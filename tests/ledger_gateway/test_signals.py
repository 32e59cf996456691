"""Signals in notebooks."""

import msgspec
import pytest

from actors.signals.events import SignalEvent
from ledger_gateway.signals import Signal, current, to_pandas


def made(number: int, **fields: object) -> Signal:
    return Signal(**{"kind": "largeSwap", "program": "P", "signature": f"S{number}", "slot": number, **fields})  # type: ignore[arg-type]


def test_a_signal_on_the_wire_is_a_record() -> None:
    """The service's own event gives the JSON; unknown fields of later versions are no error."""
    event = SignalEvent("largeSwap", "P", "S", 7, None, ("a", "b"), "SOL", "classic", False, 5 * 10**9)
    found = msgspec.convert(event.body() | {"cursor": "1-0", "later": {}}, Signal)
    assert (found.lamports, found.accounts, found.cursor, found.identity) == (
        5 * 10**9,
        ["a", "b"],
        "1-0",
        ("S", "largeSwap", ""),
    )


def test_corrections_are_applied() -> None:
    """Signals of lost forks are left out, moved ones have the new slot, restored ones are back."""
    said = [made(1), made(2), made(3), made(1, correction="removed"), made(2, slot=9, correction="moved")]
    said += [made(3, correction="removed"), made(3, slot=4, correction="restored")]
    assert [(signal.signature, signal.slot) for signal in current(said)] == [("S2", 9), ("S3", 4)]


def test_a_frame_has_whole_lamports() -> None:
    """No float touches money: 2**53+1 lamports stay what they are, also beside a signal without lamports."""
    pytest.importorskip("pandas")
    frame = to_pandas([made(1, lamports=2**53 + 1), made(2, kind="newPair")])
    assert list(frame["lamports"].dropna()) == [2**53 + 1] and str(frame["lamports"].dtype) == "Int64"
    assert list(to_pandas([]).columns) == list(frame.columns)
