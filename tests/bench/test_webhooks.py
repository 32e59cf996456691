"""The measurement of webhooks, small; and what a kill may cost."""

import pytest

from bench import webhooks


@pytest.mark.kills
async def test_a_dispatcher_that_is_killed_loses_nothing_and_bills_nothing_twice(
    postgres_url: str, owner_url: str, redis_url: str
) -> None:
    """At least once: every event arrives though the dispatcher, and the account owner with it, die by kill -9 in the
    middle; each is charged once."""
    bench = webhooks.Bench(postgres_url, redis_url)
    await bench.open()
    await bench.queue(600)
    outcome = await bench.measure(600, kills=2)
    assert (outcome.delivered, outcome.charged) == (600, 600)
