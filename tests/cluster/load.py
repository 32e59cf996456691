"""Steady load on a running product, and what came back of it. An answer counts only when all of it arrived."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

from tests.customers import Customer, rpc_body

_BODY = rpc_body("getSlot")
_BURST_MAX = 20
_TIMEOUT = aiohttp.ClientTimeout(total=90)  # A replica that hangs is waited for by the front for 60 s.


@dataclass(slots=True)
class Seen:
    """What the clients saw. answered: paid answers; kinds: every status, and the names of broken connections."""

    answered: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


async def one_call(session: aiohttp.ClientSession, url: str, headers: dict[str, str], seen: Seen) -> bool:
    """Whether it was answered as paid for."""
    try:
        async with session.post(url, data=_BODY, headers=headers) as answer:
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        seen.kinds[type(error).__name__] += 1
        return False
    seen.kinds[str(answer.status)] += 1
    if answer.status != 200 or "result" not in json.loads(body):
        return False
    seen.answered += 1
    return True


async def steady(customer: Customer, per_second: int, stop: asyncio.Event) -> Seen:
    """So many calls a second, whatever becomes of the earlier ones, until told to stop; then all are waited for."""
    seen = Seen()
    url, headers = f"{customer.product.http_url}/", customer.key_headers
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT, connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.TaskGroup() as group,
    ):
        began, sent = time.monotonic(), 0
        while not stop.is_set():
            due = int((time.monotonic() - began) * per_second)
            # What a stalled machine has missed is not made up for in one burst.
            for _ in range(min(due - sent, _BURST_MAX)):
                group.create_task(one_call(session, url, headers, seen))
            sent = due
            await asyncio.sleep(0.005)
    return seen


async def hammer(customer: Customer, clients: int, stop: asyncio.Event) -> Seen:
    """So many clients, each asking again as soon as it is answered: that many calls are in flight at any moment."""
    seen = Seen()
    url, headers = f"{customer.product.http_url}/", customer.key_headers

    async def client(session: aiohttp.ClientSession) -> None:
        while not stop.is_set():
            if not await one_call(session, url, headers, seen):
                await asyncio.sleep(0.05)  # The door is closed: not a flood of refusals.

    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT, connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(clients):
            group.create_task(client(session))
    return seen
