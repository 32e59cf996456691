"""Health of a replica's own hub: a restart is no fault, staying away is one."""

from actors.clock import ManualClock
from actors.streams.hub.own_hub import AWAY_SECONDS, OwnHub


class _Link:
    connected = False


def test_a_hub_is_away_once_it_was_not_reached_for_long() -> None:
    link, clock = _Link(), ManualClock()
    hub = OwnHub(link, clock)
    assert hub.look(), "it may still start"
    clock.advance(AWAY_SECONDS)
    assert not hub.look()
    link.connected = True
    assert hub.look()
    link.connected = False
    clock.advance(AWAY_SECONDS - 1)
    assert hub.look()
    clock.advance(1)
    assert not hub.look()
