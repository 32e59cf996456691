"""How the rate of each block engine is shared among the racers.

Implements: interface, "Bundle relay"; sends/README.md, invariant 5. Pure. Rates are thousandths of a request a second.
Not here: the leases, which keep the sum of all shares within the rate while racers come and go (leases.py).
"""

from collections.abc import Sequence

MILLI = 1_000


def share_milli(engine: int, rate_milli: int, racers: Sequence[str], me: str) -> int:
    """Return the share of one racer. engine: the place of the engine in the settings. racers: all, each once.

    Equal shares, where each racer gets at least one request a second. Below that, as many racers as there are whole
    requests share the rate, and the others get nothing: parts of a request in several racers would leave together, in
    one second. Each engine begins with other racers, so that with several engines fewer racers have none.
    """
    ordered = sorted(racers)
    count, place = len(ordered), ordered.index(me)
    if rate_milli >= count * MILLI:
        return rate_milli // count
    users = max(1, rate_milli // MILLI)
    return rate_milli // users if (place - engine * users) % count < users else 0
