"""The measurement of signals: what its server sends is read as it is meant."""

from actors.signals.classify import classify
from actors.signals.from_geyser import read_update
from bench.signals import _THRESHOLD, FrameSink, _update


def test_an_update_carries_its_time_and_is_a_signal() -> None:
    """A measurement of nothing would look fast."""
    for lamports, count in ((_THRESHOLD + 5, 1), (5, 0)):
        update = _update(7, 3, lamports).transaction
        transaction = read_update(update.slot, update.transaction)
        assert transaction is not None
        events = classify(transaction, large_swap_lamports=_THRESHOLD)
        assert [event.lamports for event in events] == [lamports] * count


def test_a_frame_tells_the_age_of_its_signal() -> None:
    delays_ms: list[float] = []
    sink = FrameSink(delays_ms)
    assert sink.deliver(b'{"lamports":%d,"x":1}' % (_THRESHOLD + 1_000_000), charged=True)
    assert sink.frames == 1 and delays_ms[0] > 1e12
