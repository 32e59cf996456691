"""Waits until the gateway of a local run takes paid calls.

Implements: the local run's promise of a first call that works as printed. Not here: what health is (status/).
"""

import asyncio
from collections.abc import Callable

import aiohttp

from actors.launch.local_run.deadlines import Stop

_HEALTHY_SECONDS = 120.0  # Includes the start of the replicas on a busy machine.
_LOOK_SECONDS = 0.1
_LOOKS_BETWEEN = 20  # Looks at the health between two at what Serve says.
_PROBE = aiohttp.ClientTimeout(total=2)


async def until_deployed(stop: Stop, is_deployed: Callable[[], bool]) -> None:
    """Wait until all replicas run, as the spare one starts beside the first, or until the run is to stop.

    is_deployed: raises where they cannot start; blocks.
    """
    while not stop.is_set() and not await asyncio.to_thread(is_deployed):  # noqa: ASYNC110 - Serve tells nobody.
        await asyncio.sleep(_LOOK_SECONDS)


async def until_healthy(http_url: str, stop: Stop, is_deployed: Callable[[], bool]) -> None:
    """Wait until /health reports that paid calls are accepted, or the run is to stop. Raises TimeoutError.

    is_deployed: raises where the replicas cannot start, so that nobody waits for them; blocks.
    """
    try:
        async with asyncio.timeout(_HEALTHY_SECONDS):
            await _seen_healthy(http_url, stop, is_deployed)
    except TimeoutError:
        raise TimeoutError(
            f"the gateway does not take paid calls after {_HEALTHY_SECONDS:g} s; the data folder's logs/ tell why"
        ) from None


async def _seen_healthy(http_url: str, stop: Stop, is_deployed: Callable[[], bool]) -> None:
    looks = 0
    async with aiohttp.ClientSession(timeout=_PROBE) as session:
        while not stop.is_set():
            try:
                async with session.get(f"{http_url}/health") as answer:
                    if answer.status == 200 and (await answer.json(content_type=None))["paid_traffic_ready"]:
                        return
            except (aiohttp.ClientError, TimeoutError, ValueError):
                pass  # Not listening yet, or still starting.
            looks += 1
            if looks % _LOOKS_BETWEEN == 0:
                await asyncio.to_thread(is_deployed)
            await asyncio.sleep(_LOOK_SECONDS)
