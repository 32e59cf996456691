"""The scripts of the log: what GUARD refuses changes nothing at all in Redis."""

import pytest
from redis.asyncio import Redis

from actors.signals.log import PositionLost, RedisSignalLog, SignalGap, SliceTaken
from actors.signals.positions import Claim
from tests.signals.test_log import signal


async def test_a_refused_write_leaves_every_key_as_it_was(redis_url: str) -> None:
    client = Redis.from_url(redis_url)
    await client.flushall()
    log = RedisSignalLog(client)
    (mine,), _ = await log.claim(["p"], {})
    await log.append([mine], 50, [signal(1)])
    (newer,), _ = await log.claim(["p"], {})
    before = {key: await client.dump(key) for key in await client.keys("*")}
    for claim, refused in (
        (mine, SliceTaken),
        (newer._replace(position=60), PositionLost),
        (Claim("p", 9), PositionLost),
    ):
        for write in (
            lambda claim=claim: log.append([claim], 70, [signal(1, slot=101), signal(2)]),
            lambda claim=claim: log.correct([claim], 100, [signal(1)]),
            lambda claim=claim: log.report_gap([claim], SignalGap(51, 60, "gone")),
        ):
            with pytest.raises(refused):
                await write()
    assert {key: await client.dump(key) for key in await client.keys("*")} == before
    await client.aclose()
