"""Which slice of the dispatchers' work an account's webhooks belong to, and the names of the dispatchers.

Implements: design, "Owners, for every kind of actor" (webhook dispatchers: hash of the account, 64). Pure.
All webhooks of an account are in one slice, and so with one dispatcher: how many places and credits an account may
hold, and the order of what one webhook gets, are known where they are decided. With the webhooks of an account on
several dispatchers, each would hold a tenth of the same balance.
The slice is computed in functions.sql as well (webhooks_slice), from the same byte.
"""

import hashlib

from actors.ownership.team import Team

KIND = "webhook-dispatchers"  # Name in ownership; functions.sql repeats it.
SLICES = 64  # Never changes while webhooks are stored. Four for each of the most dispatchers, so shares are even.
DISPATCHERS_MAX = 16
# Its dispatcher also follows the sources of events (chain, signals, accounts), and removes old rows.
SOURCES_SLICE = 0
# Name of the only dispatcher in the previous release, whose replicas still ask it.
DISPATCHER_ACTOR_NAME = "webhook-dispatcher"


def slice_of(pubkey: bytes) -> int:
    """Return a number from 0 to SLICES - 1. pubkey: of the account."""
    return hashlib.sha256(pubkey).digest()[0] % SLICES


def dispatcher_names(count: int) -> list[str]:
    """Return the names of this many dispatchers; each begins with DISPATCHER_ACTOR_NAME."""
    assert 1 <= count <= DISPATCHERS_MAX, count
    return [DISPATCHER_ACTOR_NAME, *(f"{DISPATCHER_ACTOR_NAME}-{index}" for index in range(1, count))]


DISPATCHERS = Team(
    KIND,
    SLICES,
    DISPATCHERS_MAX,
    DISPATCHER_ACTOR_NAME,
    dispatcher_names,
    give_seconds=18.0,  # More than the time for which a dispatcher waits for its running requests.
    take_seconds=15.0,  # A dispatcher that starts with this call must first open its connections.
    group=SLICES,  # All at once, so that a giver waits only once for its slowest receiver.
)
