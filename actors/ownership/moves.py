"""Moves slices from actor to actor until they are spread evenly; all kinds of slices move only here.

Implements: design, "Owners, for every kind of actor". A shell over two calls of the kind; which slices move: spread.py.

A few slices at a time: the old holder gives them (it finishes what it does with them and flushes), then the new one
takes them (it claims them by the next epoch and loads them). If the old holder does not answer, the new one takes them
all the same; the epoch refuses later writes of the old one. Nothing is remembered here: each step begins from the
stored holders, so a mover that dies anywhere is continued by running it again, and two movers do no harm.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from actors.ownership.spread import spread

logger = logging.getLogger(__name__)

GROUP_SLICES = 16  # Slices given by one holder at once: only their work waits for the move.

# The wanted holder of each slice, made of the number of slices, their holders of now, and the actors that are wanted.
# The answer is the same when some slices have moved to their new holders.
Aim = Callable[[int, Mapping[int, str], Sequence[str]], dict[int, str]]
Holders = Callable[[], Awaitable[Mapping[int, str]]]
# Of one holder and some slices. Each raises HolderAway, has a deadline of its own, and may be asked again. give: slices
# that it does not hold are given already. take: slices that it holds stay as they are.
Give = Callable[[str, Sequence[int]], Awaitable[None]]
Take = Callable[[str, Sequence[int]], Awaitable[None]]


class HolderAway(Exception):
    """The actor does not answer; it may or may not have carried out the request."""


class MovesStalled(Exception):
    """Slices were taken, but the stored holders do not show it: another mover wants another spread."""


class _Step(NamedTuple):
    giver: str | None  # None: no actor ever held them.
    taker: str
    slices: tuple[int, ...]


async def move_slices(
    slices: int,
    wanted: Sequence[str],
    holders: Holders,
    give: Give,
    take: Take,
    group: int = GROUP_SLICES,
    silent: Collection[str] = (),
    aim: Aim = spread,
) -> int:
    """Move slices until they are spread over `wanted` as `aim` says, evenly. Returns how many were moved.

    holders: reads who holds each slice now. silent: actors that are known not to answer: they are not asked to give.
    Raises HolderAway when a new holder does not answer, after all other moves are made; the slices that it should have
    taken were given back where that was possible. Raises MovesStalled.
    """
    moved, missing = 0, slices + 1
    away = set(silent)
    while True:
        now = await holders()
        target = aim(slices, now, wanted)
        misplaced = [number for number in target if now.get(number) != target[number]]
        step = _next_step(now, target, [number for number in misplaced if target[number] not in away], group, away)
        if step is None:
            break
        if len(misplaced) >= missing:
            raise MovesStalled(f"{len(misplaced)} slices have other holders than planned")
        missing = len(misplaced)
        if step.giver is not None and step.giver not in away and not await _given(give, step):
            away.add(step.giver)
        try:
            await take(step.taker, step.slices)
            moved += len(step.slices)
        except HolderAway as error:
            logger.warning("%s takes no slices: %s", step.taker, error)
            away.add(step.taker)
            missing = slices + 1
            if step.giver is not None and step.giver not in away:
                await _given(take, step)
    if misplaced:
        raise HolderAway(f"no answer from {', '.join(sorted({target[number] for number in misplaced}))}")
    return moved


async def _given(call: Give, step: _Step) -> bool:
    """Return whether the giver answered."""
    assert step.giver is not None
    try:
        await call(step.giver, step.slices)
    except HolderAway as error:
        logger.warning("%s gives no slices, and they are taken from it: %s", step.giver, error)
        return False
    return True


def _next_step(
    now: Mapping[int, str], target: Mapping[int, str], misplaced: Sequence[int], group: int, away: set[str]
) -> _Step | None:
    """Return the first slices that go from one actor to another. None: no more can move.

    Nobody waits for slices that no living actor holds, so they all go at once.
    """
    if not misplaced:
        return None
    giver, taker = now.get(misplaced[0]), target[misplaced[0]]
    alike = [number for number in misplaced if now.get(number) == giver and target[number] == taker]
    return _Step(giver, taker, tuple(alike if giver is None or giver in away else alike[:group]))
