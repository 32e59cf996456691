"""An owner that hangs is started anew by the owner before it, and by no other one."""

from collections.abc import Collection

import pytest

from actors.accounts.guarding import Guarding, next_of
from actors.accounts.stored import StoreUnavailable
from actors.ownership.silence import AGAIN_SECONDS, LOOK_SECONDS


class Ring:
    def __init__(self, *indexes: int) -> None:
        self.indexes, self.silent = indexes, set[int]()
        self.restarted: list[tuple[int, int]] = []
        self.guards = {index: self._guard(index) for index in indexes}

    def _guard(self, index: int) -> Guarding:
        async def owners() -> Collection[int]:
            return self.indexes

        async def hangs(other: int) -> bool:
            return other in self.silent

        return Guarding(index, owners, hangs, lambda other: self.restarted.append((index, other)))

    async def look(self) -> list[float]:
        return [await guard.look() for index, guard in self.guards.items() if index not in self.silent]


def test_each_owner_is_the_next_one_of_exactly_one() -> None:
    for indexes in ((0, 1), (0, 1, 2), (1, 5, 9)):
        assert sorted(next_of(index, indexes) for index in indexes) == list(indexes)  # type: ignore[type-var]
    assert next_of(0, [0]) is None and next_of(0, []) is None
    assert next_of(2, [0, 1]) == 0, "one that has no shards yet"


async def test_one_that_is_silent_twice_is_started_anew_once() -> None:
    ring = Ring(0, 1, 2)
    assert await ring.look() == [LOOK_SECONDS] * 3 and ring.restarted == []
    ring.silent = {1}
    assert await ring.look() == [AGAIN_SECONDS, LOOK_SECONDS]
    ring.silent = set()
    await ring.look()
    ring.silent = {1}
    await ring.look()
    assert ring.restarted == [], "it was late, and answered"
    first = (await ring.look())[0]
    assert ring.restarted == [(0, 1)] and first > LOOK_SECONDS, "it gets time to start"
    await ring.look()
    assert ring.restarted == [(0, 1)]


async def test_nobody_looks_at_the_only_owner() -> None:
    ring = Ring(0)
    assert await ring.look() == [LOOK_SECONDS]


async def test_the_loop_goes_on_without_the_database_and_after_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    faults: list[Exception | None] = [StoreUnavailable("away"), KeyError("a bug"), None]
    pauses: list[float] = []

    class Enough(BaseException):
        pass

    async def owners() -> Collection[int]:
        fault = faults[len(pauses) - 1]
        if fault is not None:
            raise fault
        return [0]

    async def hangs(_: int) -> bool:
        return False

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > len(faults):
            raise Enough

    with pytest.raises(Enough):
        await Guarding(0, owners, hangs, lambda _: None, sleep).run()
    assert pauses == [LOOK_SECONDS] * 4
    assert [record.message for record in caplog.records] == ["looking at the next owner failed"]
