"""Deliveries that customers could get for nothing, of webhooks that they delete, and logs that replays make longer."""

from actors.webhooks.core import ATTEMPTS_MAX, JobState
from actors.webhooks.registrations import Change
from actors.webhooks.store import WebhookStore

from .test_store import ALICE, NOW, claim, hook, queue, result


async def test_what_a_deleted_webhook_owes_is_still_charged(store: WebhookStore) -> None:
    """Otherwise an account without credits gets deliveries for ever: it deletes its webhooks and makes them again."""
    name = await hook(store)
    await queue(store, 3)
    unpaid, under_way = await claim(store, jobs=2)
    await store.finish([result(unpaid, JobState.UNPAID)], NOW)
    assert await store.delete(ALICE, name, NOW) and not await store.delete(ALICE, name, NOW)
    assert await store.find(ALICE, name) is None and await store.of_account(ALICE) == []
    assert await store.change(ALICE, name, Change(enable=True), NOW) is None
    assert await store.rotate(ALICE, name, b"new", NOW, NOW + 9, 3) is None
    await store.finish([result(under_way, JobState.UNPAID, disable="gone")], NOW)
    assert await store.find(ALICE, name) is None
    again = await hook(store)
    await queue(store)
    assert await store.unpaid(ALICE, 9) == [(unpaid.id, name), (under_way.id, name)]
    await store.expire(NOW, NOW + 10_000)
    assert not await store.paid(ALICE, [unpaid.id]) and await claim(store, NOW + 1) == []
    assert await store.paid(ALICE, [under_way.id])
    assert [job.webhook_id for job in await claim(store, NOW + 1)] == [again]
    await store.expire(NOW, NOW)
    assert await store.log(name, None, 9) == []


async def test_replays_do_not_make_the_log_of_attempts_grow(store: WebhookStore) -> None:
    """Replays are free, and each attempt keeps a kilobyte of the answer."""
    name = await hook(store)
    await queue(store)
    for at in range(NOW, NOW + 20):
        (job,) = await claim(store, at)
        await store.finish([result(job, JobState.DELIVERED, at, at_ms=at)], at)
        assert await store.replay(name, [job.id], 0, 0, at + 1, 9) == 1
    (logged,) = await store.log(name, None, 9)
    assert [tried[0] for tried in logged.tried] == list(range(NOW + 20 - ATTEMPTS_MAX, NOW + 20))


async def test_a_log_of_many_megabytes_is_not_read_whole_for_one_page(store: WebhookStore) -> None:
    """500 deliveries of 16 attempts have 8 MB of answers: a page that shows some of them reads no others."""
    name = await hook(store)
    await queue(store, 5)
    jobs = await claim(store)
    await store.finish([result(job, JobState.DELIVERED, answer=b"x" * 1_000) for job in jobs], NOW)
    whole = await store.log(name, None, 9)
    assert [len(job.tried) for job in whole] == [1] * 5
    for bytes_max, read in ((-1, 1), (0, 1), (999, 1), (1_000, 2), (2_999, 3), (3_000, 4), (10**9, 5)):
        part = await store.log(name, None, 9, bytes_max)
        assert part[:read] == whole[:read] and [job.tried for job in part[read:]] == [()] * (5 - read), bytes_max
