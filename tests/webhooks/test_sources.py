"""Guards that the sources of events are followed by the dispatcher of their slice, and by no other."""

from actors.webhooks.slices import SOURCES_SLICE
from actors.webhooks.sources import EventSources


class Follower:
    def __init__(self, log: list[str], name: str) -> None:
        self._log, self._name = log, name

    def start(self) -> None:
        self._log.append(f"start {self._name}")

    def changed(self) -> None:
        self._log.append(f"changed {self._name}")

    async def stop(self) -> None:
        self._log.append(f"stop {self._name}")


async def test_followers_come_and_go_with_the_slice() -> None:
    """New ones each time: they must read on from the stored cursors, as another dispatcher may have moved them."""
    log: list[str] = []
    opened: list[Follower] = []

    def open_followers() -> list[Follower]:
        opened.append(Follower(log, str(len(opened))))
        return opened[-1:]

    sources = EventSources(open_followers, lambda: log.append("told another dispatcher"))
    sources.begin([SOURCES_SLICE + 1])
    sources.changed()
    assert not sources.are_followed and log == ["told another dispatcher"]
    sources.begin([SOURCES_SLICE])
    sources.begin([SOURCES_SLICE])  # Taken again by a newer epoch.
    sources.changed()
    await sources.finish([SOURCES_SLICE + 1])
    assert sources.are_followed and log[1:] == ["start 0", "changed 0"]
    await sources.finish([SOURCES_SLICE])
    assert not sources.are_followed
    sources.begin([SOURCES_SLICE])
    assert log[3:] == ["stop 0", "start 1"]
