"""What accounts hold of a dispatcher's places, counted through leases and their ends."""

from hypothesis import given
from hypothesis import strategies as st

from actors.webhooks.places import Places
from actors.webhooks.store import Job, Room


def job(account: int, fails: bool) -> Job:
    since_ms = 1 if fails else None
    return Job(1, 1, 0, "wh", bytes([account]) * 32, "https://e.example/", "signal", b"", [], [], since_ms, "{}", False)


@given(st.lists(st.builds(job, st.integers(0, 3), st.booleans()), max_size=60), st.integers(0, 60))
def test_every_place_is_given_back_once_and_large_holders_are_told(jobs: list[Job], ended: int) -> None:
    """Whatever is leased and ends: the free places are exact, and nothing is remembered of accounts without leases."""
    places = Places(80)
    assert places.room() == Room(80, 40, 32, 8, 10, [], [])
    places.take(jobs)
    done, left = jobs[:ended], jobs[ended:]
    for each in done:
        places.attempted(each)
    places.free(done)
    room = places.room()
    held = {each.pubkey: sum(other.pubkey == each.pubkey for other in left) for each in left}
    assert room.jobs == 80 - len(left) and room.failing == max(0, 40 - sum(each.failing_since_ms == 1 for each in left))
    assert dict(zip(room.holders, room.held, strict=True)) == {
        pubkey: held[pubkey] for pubkey in held if held[pubkey] > 8
    }
    for each in left:
        assert places.of(each.pubkey) == held[each.pubkey]
        places.attempted(each)
    places.free(left)
    assert places.room() == Room(80, 40, 32, 8, 10, [], []) and not places._held
