"""The scripts of the log: what GUARD refuses changes nothing at all in Redis."""

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from actors.signals.log import DivisionChanged, PartTaken, PositionLost, RedisSignalLog, SignalGap
from actors.signals.positions import Division
from tests.signals.test_log import signal


async def test_a_refused_write_leaves_every_key_as_it_was(redis_url: str) -> None:
    client = Redis.from_url(redis_url)
    await client.flushall()
    log = RedisSignalLog(client)
    older = await log.claim(0, 1, None)
    await log.divide(2)
    mine = await log.claim(0, 1, None)
    await log.append(mine, 50, 60, [signal(1)])
    newer = await log.claim(0, 1, None)
    before = {key: await client.dump(key) for key in await client.keys("*")}
    for claim, refused in (
        (older, DivisionChanged),
        (mine, PartTaken),
        (replace(newer, position=60), PositionLost),
        (replace(newer, epoch=9), PositionLost),
        (replace(newer, division=Division(1 << 50, 2)), PositionLost),
    ):
        for write in (
            lambda claim=claim: log.append(claim, 70, 80, [signal(1, slot=101), signal(2)]),
            lambda claim=claim: log.correct(claim, 100, [signal(1)]),
            lambda claim=claim: log.report_gap(claim, SignalGap(51, 60, "gone")),
        ):
            with pytest.raises(refused):
                await write()
    assert {key: await client.dump(key) for key in await client.keys("*")} == before
    await client.aclose()
