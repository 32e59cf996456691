"""What sources say when they end."""

from actors.signals.sources import SlotsGone


def test_lost_slots_name_the_first_one_that_is_left() -> None:
    assert SlotsGone(7).first == 7 and "7" in str(SlotsGone(7))
