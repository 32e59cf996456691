"""Waits until a local run that has been started takes paid calls.

Implements: the README's first command. Serve is looked at between, as a deployment that it gave up never gets healthy.
"""

import asyncio

import aiohttp

from actors.launch.local_run import cluster
from actors.launch.local_run.deadlines import Stop

_HEALTHY_SECONDS = 120.0  # With the start of the replicas, on a machine that is busy.
_LOOKS_BETWEEN = 20  # Looks at the health between two at what Serve says.
_PROBE = aiohttp.ClientTimeout(total=2)


async def until_healthy(http_url: str, stop: Stop) -> None:
    """Wait until /health reports that paid calls are accepted. Raises TimeoutError, and StartFailed."""
    try:
        async with asyncio.timeout(_HEALTHY_SECONDS):
            await _seen_healthy(http_url, stop)
    except TimeoutError:
        raise TimeoutError(
            f"the gateway does not take paid calls after {_HEALTHY_SECONDS:g} s; the data folder's logs/ tell why"
        ) from None


async def _seen_healthy(http_url: str, stop: Stop) -> None:
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
                await asyncio.to_thread(cluster.require_deploying)
            await asyncio.sleep(0.1)
