"""Another price list: every price of the catalog is another number, and no two are equal.

Modules read their prices when they are imported, so a process must call change() before it imports anything else.
"""

import itertools
from dataclasses import replace
from types import MappingProxyType as Frozen

from actors.methods import prices
from actors.units import Credits

INTERVAL_SECONDS = 1  # Of a gRPC stream: the test waits for one.


def change() -> None:
    new = itertools.count(31)
    prices.BULK = tuple(replace(row, credits_per_item=Credits(next(new))) for row in prices.BULK)
    prices.RELAY = tuple(replace(row, credits=Credits(next(new))) for row in prices.RELAY)
    prices.STREAMS = Frozen(
        {
            "websocket": Frozen(
                {"connect_credits": next(new), "notifications_per_credit": 4, "unsubscribe_credits": 0}
            ),
            "signals": Frozen(
                {
                    **{name: next(new) for name in ("connect_credits", "history_credits")},
                    "event_credits": 3,
                    "unsubscribe_credits": 0,
                    "history_events": 2,
                }
            ),
            "grpc": Frozen(
                {
                    **{name: next(new) for name in ("request_credits", "replay_request_credits", "interval_credits")},
                    "interval_seconds": INTERVAL_SECONDS,
                    "unpaid_seconds_kept": 7,
                }
            ),
        }
    )
    prices.WEBHOOK_DELIVERY_CREDITS = next(new)
    # Classes first: the entries of methods take the prices of their classes.
    prices.CLASSES = Frozen(
        {name: replace(row, credits=row.credits and Credits(next(new))) for name, row in prices.CLASSES.items()}
    )
    from actors.methods import catalog

    catalog.METHODS = Frozen(
        {name: replace(row, credits=row.credits and Credits(next(new))) for name, row in catalog.METHODS.items()}
    )
    catalog.check()
