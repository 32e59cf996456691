"""The id of a request goes with its work: into the tasks that it starts, and into no other request's."""

import asyncio

from actors.request_ids import current, work_for


async def test_tasks_of_a_request_carry_its_id_and_no_other_task_does() -> None:
    """Also a task that goes on after its request has ended, as the settlement of a call whose client left."""
    found: dict[str, str] = {}
    go_on = asyncio.Event()

    async def settle(name: str) -> None:
        await go_on.wait()
        found[name] = current()

    async def request(name: str) -> "asyncio.Task[None]":
        work_for(name)
        await asyncio.sleep(0)
        return asyncio.create_task(settle(name))

    begun = await asyncio.gather(*(asyncio.create_task(request(name)) for name in ("a", "b")))
    found["outside"] = current()
    go_on.set()
    await asyncio.gather(*begun)
    assert found == {"a": "a", "b": "b", "outside": ""}
