"""The count of steps back: of reads of one API account, by when each began."""

import asyncio
from typing import Any

import aiohttp

from bench.lagging_nodes import ANY, Clients, Reads, Sight


def test_a_step_back_is_a_slot_below_one_that_was_known_when_the_read_began() -> None:
    sight, found = Sight(), Reads()
    sight.see(0, 100, found)
    sight.see(0, 90, found)  # It began before anything was seen.
    assert found.steps_back == 0
    sight.see(100, 60, found)
    sight.see(100, 100, found)
    assert (found.steps_back, found.deepest, sight.newest) == (1, 40, 100)


async def test_reads_are_counted_and_refused_ones_are_no_steps() -> None:
    """By as many clients as are wanted, each with the key of its account."""
    async with aiohttp.ClientSession() as session:
        clients, keys = Clients(session, "http://127.0.0.1:1/", ["a", "b"], ["X"]), []

        async def call(key: str, consistency: str, method: str, *params: Any) -> dict[str, Any]:
            keys.append(key)
            number = len(keys)
            await asyncio.sleep(0)
            if number % 4 == 0:
                return {"error": {"message": "busy"}}
            return {"result": {"context": {"slot": 100 - number}, "value": 1}}

        clients.call = call  # type: ignore[method-assign]
        found = await clients.read(20, 4, ANY, 1)
    assert (found.answered, dict(found.refused), len(found.latencies_ms)) == (15, {"busy": 5}, 20)
    assert set(keys) == {"a", "b"} and found.steps_back > 0
