"""Price lists whose owners change their mind, and payments beside them: the price that was told is the price."""

from typing import Any

from actors.calls import ProvenProof
from actors.gateway.calls import account_prices
from actors.gateway.calls.jsonrpc import Call
from actors.gateway.payments.x402 import within
from tests.gateway.calls.test_account_prices import paid, world
from tests.gateway.world import call


async def test_owners_that_change_their_mind_all_the_time_are_asked_three_times() -> None:
    """Then the call is refused for free, and its client asks again."""
    async with world() as there:
        wallet = await there.customer(1_000)
        hold, asked = there.accounts.hold, list[Any]()

        async def changing(request: Any) -> Any:
            asked.append(request.price_list)
            await there.give_list(wallet, "dear" if request.price_list != "dear" else "wholesale")
            return await hold(request)

        there.accounts.hold = changing  # type: ignore[method-assign]
        for one in (call("getBlock", 5), [call("getBlock", 5)]):
            asked.clear()
            answer = await there.rpc(wallet, one)
            assert answer.status_code == 503 and len(asked) == account_prices.HOLDS_MAX, answer.text
        assert await there.debits(wallet) == []


async def test_a_payment_buys_at_the_price_that_its_terms_told() -> None:
    """The payer's own list is no part of the terms, which are for everybody."""
    async with world() as there:
        wallet = await there.customer(1_000)
        await there.give_list(wallet, "dear")
        await paid(there, wallet, call("getBlock", 5))  # This replica knows the list by now.
        pipeline = there.door._pipeline
        (bought,) = within([Call(b"1", "getBlock", b"[5]", [5])], 25)
        for _ in range(2):
            done = await pipeline.single(ProvenProof(wallet.pubkey), bought)
            (reply,) = done.items
            assert reply.charge is not None and reply.charge.charged == 25
            batch = await pipeline.batch(ProvenProof(wallet.pubkey), [bought, bought])
            assert [one.charge.charged for one in batch.items if one.charge] == [25, 25]
