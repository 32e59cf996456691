"""The hourly limit through the real doors, in this process. Rule: decisions, "Hourly limit"."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.gateway.pages.hourly_limit import HourlyLimitPages
from tests.gateway.pages.test_keys import ask
from tests.gateway.pages.test_receipts import get
from tests.gateway.world import World, a_world, call, constant

PATH = "/account/hourly-limit"


class Pages(HourlyLimitPages):
    def __init__(self) -> None:
        self.ready = False

    def open(self, world: World) -> None:
        super().__init__(world.accounts)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        yield world


async def test_the_wallet_sets_the_limit_and_calls_above_it_are_refused_free(world: World) -> None:
    """403 without an offer to pay; the error says what to do; a batch goes item by item."""
    customer = await world.customer(1_000)
    answer = await ask(world, customer, "PATCH", PATH, {"credits_an_hour": 3})
    assert answer.status_code == 200 and answer.json()["credits_an_hour"] == 3, answer.text
    batch = (await world.rpc(customer, [call(id=number) for number in range(4)])).json()
    assert ["error" in item for item in batch] == [False, False, False, True]
    refused = await world.rpc(customer, call())
    assert (refused.status_code, constant(refused)) == (403, "HOURLY_LIMIT_EXCEEDED")
    error = refused.json()["error"]
    assert error["code"] == -32014 and PATH in error["data"]["hint"]
    assert refused.headers["x-credits-cost"] == "0" and refused.headers["x-credits-remaining"] == "997"
    assert await world.balance(customer) == 997
    shown = (await get(world, customer, PATH)).json()
    assert shown["stage"] == "stopped" and shown["spent_this_hour"] == 3 and shown["basis"] == "set"
    lifted = (await ask(world, customer, "PATCH", PATH, {"lift_seconds": 600})).json()
    assert lifted["stage"] == "lifted" and lifted["lifted_until"]
    assert (await world.rpc(customer, call())).status_code == 200
    gone = (await ask(world, customer, "PATCH", PATH, {"credits_an_hour": None, "lift_seconds": 0})).json()
    assert (gone["setting"], gone["credits_an_hour"], gone["basis"]) == (None, None, None)
    learnt = (await ask(world, customer, "PATCH", PATH, {"credits_an_hour": "learnt"})).json()
    assert (learnt["setting"], learnt["usual_credits_an_hour"]) == ("learnt", None)


async def test_an_api_key_shows_the_limit_and_changes_nothing(world: World) -> None:
    customer = await world.customer(1_000)
    headers = {"x-api-key": customer.api_key}
    assert (await world.http.get(PATH, headers=headers)).status_code == 200
    changed = await world.http.request("PATCH", PATH, headers=headers, content=b'{"credits_an_hour": null}')
    assert changed.status_code in (401, 402, 403)
    assert (await get(world, customer, PATH)).json()["setting"] == "learnt"


@pytest.mark.parametrize(
    "body",
    [
        *({}, [], {"credits_an_hour": 0}, {"credits_an_hour": -5}, {"credits_an_hour": "10"}, {"credits_an_hour": 1.5}),
        *({"credits_an_hour": True}, {"lift_seconds": -1}, {"lift_seconds": 86_401}, {"lift_seconds": None}),
        *({"credits_an_hour": 10**16}, {"credits": 5}),
    ],
)
async def test_what_is_no_limit_is_refused(world: World, body: Any) -> None:
    customer = await world.customer(1_000)
    answer = await ask(world, customer, "PATCH", PATH, body)
    assert (answer.status_code, constant(answer)) == (400, "INVALID_REQUEST")


async def test_the_account_tells_how_long_its_credits_last(world: World) -> None:
    customer = await world.customer(1_000)
    for _ in range(4):
        await world.rpc(customer, call())
    assert (await get(world, customer, "/account/info")).json()["runway"] is None, "it is learnt within seconds"
    await world.shard.tick()
    runway = (await get(world, customer, "/account/info")).json()["runway"]
    assert runway == {"credits_an_hour": 4, "hours_left": 249, "expiring": 0}
