"""Many worlds of hostile receivers, kills, outages and meddling owners, each from one seed."""

import os
from collections import Counter

from .simulation import simulate

SEEDS = int(os.environ.get("WEBHOOK_SEEDS", "4"))


def test_whatever_is_killed_each_event_arrives_or_is_visibly_given_up_and_is_billed_once() -> None:
    """Rules 1 to 8 of actors/webhooks/README.md; threats 27 and 29. A failure names its seed; WEBHOOK_SEEDS=1000
    is the long run."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            counts += simulate(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: tests.webhooks.simulation.simulate({seed})")
            raise
    assert counts["delivered"] > 100 and counts["kills"] > 10, counts
    assert counts["moved"] > 100 and counts["cut_off"] > 3, counts
    assert counts["hangs"] + counts["never_answers"] and counts["busy"] + counts["fails"], counts
