"""Spreads the slices of a kind's work evenly over its actors: moving as few as possible, or in blocks.

Implements: design, "Owners, for every kind of actor". Pure. Not here: moving slices (moves.py).
"""

from collections.abc import Mapping, Sequence


def spread(slices: int, holders: Mapping[int, str], wanted: Sequence[str]) -> dict[int, str]:
    """Return the holder of each slice from 0 to slices - 1, each one of `wanted`.

    holders: of now; a slice without one, or with one that is not wanted, goes to somebody. Two shares differ by one
    slice at most, and no spread that is as even moves fewer. When some of the slices have moved to their new holders,
    in any order, the answer is still the same: so a mover may ask again after each of its steps.
    """
    assert wanted and len(set(wanted)) == len(wanted), wanted
    held: dict[str, list[int]] = {name: [] for name in wanted}
    for number in range(slices):
        if (name := holders.get(number, "")) in held:
            held[name].append(number)
    share, greater = divmod(slices, len(wanted))
    # A greater share lets an actor with more than the lesser share keep one slice more. To the others it makes no
    # difference, so `wanted` decides: the order of how much they hold would change while slices move.
    by_need = sorted(wanted, key=lambda name: len(held[name]) <= share)
    room = {name: share + int(place < greater) for place, name in enumerate(by_need)}
    kept = {number: name for name in wanted for number in held[name][: room[name]]}
    free = iter([number for number in range(slices) if number not in kept])
    for name in wanted:
        for _ in range(room[name] - len(held[name])):
            kept[next(free)] = name
    return dict(sorted(kept.items()))


def blocks(slices: int, _holders: Mapping[int, str], wanted: Sequence[str]) -> dict[int, str]:
    """Return the holder of each slice, so that each actor has neighbours, in the order of `wanted`.

    For work whose callers are in the same order (launch/front/affinity.py). Another number of actors moves half of all
    slices, where `spread` moves the share of one actor.
    """
    assert wanted and len(set(wanted)) == len(wanted), wanted
    return {number: wanted[number * len(wanted) // slices] for number in range(slices)}
