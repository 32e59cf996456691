"""Guards that code and database agree about slices, and that all webhooks of an account are in one."""

import asyncpg

from actors.webhooks.slices import DISPATCHERS_MAX, SLICES, dispatcher_names, slice_of


async def test_the_database_computes_the_same_slice(postgres_url: str) -> None:
    """A dispatcher fences by its own slice what the database filters by its own."""
    connection = await asyncpg.connect(postgres_url)
    try:
        for number in range(300):
            pubkey = number.to_bytes(32, "big")
            assert await connection.fetchval("SELECT webhooks_slice($1)", pubkey) == slice_of(pubkey)
    finally:
        await connection.close()


def test_accounts_are_spread_over_all_slices() -> None:
    assert {slice_of(number.to_bytes(32, "big")) for number in range(2_000)} == set(range(SLICES))


def test_the_first_dispatcher_has_the_name_of_the_only_one_before() -> None:
    """Replicas of the release before ask it under that name, and a smaller number ends the last ones."""
    assert dispatcher_names(1) == ["webhook-dispatcher"]
    assert dispatcher_names(3) == ["webhook-dispatcher", "webhook-dispatcher-1", "webhook-dispatcher-2"]
    assert len(set(dispatcher_names(DISPATCHERS_MAX))) == DISPATCHERS_MAX
