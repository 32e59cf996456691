"""How long credits last, from what was spent in equal spans of time: resampled histories in place of a model.

Calls come in bursts, so single spans are not independent: whole blocks of neighbouring spans are drawn (the circular
block bootstrap of Politis and Romano, 1992). What this cannot know: a future that is unlike the history.
"""

from collections.abc import Sequence

import numpy as np

SHARE = 0.8  # Of the futures, within the interval.


def histories(spent: Sequence[float], count: int, block: int, seed: int) -> np.ndarray:
    """Histories of the same length that might have been as well: blocks of this one, in any order. One a line."""
    values = np.asarray(spent, dtype=float)
    starts = np.random.default_rng(seed).integers(0, len(values), (count, -(-len(values) // block)))
    places = (starts[:, :, None] + np.arange(block)) % len(values)  # A block that begins near the end goes on in front.
    return values[places.reshape(count, -1)[:, : len(values)]]


def futures(spent: Sequence[float], spans: int, count: int = 2_000, block: int = 4, seed: int = 1) -> np.ndarray:
    """What the next spans may cost, one future a line: each is drawn from a history of its own, so both count, that the
    rate is not known exactly, and that spans differ."""
    generator = np.random.default_rng(seed + 1)
    past = histories(spent, count, block, seed)
    starts = generator.integers(0, past.shape[1], (count, -(-spans // block)))
    places = (starts[:, :, None] + np.arange(block)) % past.shape[1]
    return np.take_along_axis(past, places.reshape(count, -1)[:, :spans], axis=1)


def spans_left(spent: Sequence[float], balance: float, count: int = 2_000, block: int = 4, seed: int = 1) -> np.ndarray:
    """How many spans the balance lasts, at the rate of each resampled history; infinite where it spent nothing.

    For a balance that lasts much longer than the history: by then single spans have evened out, and what is left is
    that the rate is not known exactly.
    """
    rates = histories(spent, count, block, seed).mean(axis=1)
    return np.divide(balance, rates, out=np.full(count, np.inf), where=rates > 0)


def interval(values: np.ndarray, axis: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower end, median and upper end: SHARE of the values are between the ends."""
    # Of values that are there, so that nothing is computed between a number and an infinite one.
    low, middle, high = np.quantile(values, [(1 - SHARE) / 2, 0.5, (1 + SHARE) / 2], axis=axis, method="nearest")
    return low, middle, high
