"""The client of named keys, against the real door."""

import pytest

from ledger_gateway import BadCredential, Denied
from ledger_gateway.errors import BadRequest
from ledger_gateway.keys import Keys, narrow
from tests.gateway.pages.test_keys import Pages
from tests.ledger_gateway.world import a_gateway


async def test_a_wallet_makes_a_key_that_stays_in_its_budget() -> None:
    pages = Pages()
    async with a_gateway(pages=pages.pages()) as served:
        pages.open(served.world)
        wallet = await served.wallet(1_000)
        async with served.gateway(wallet) as owner:
            keys = Keys(owner)
            new = await keys.create("agent", credits_total=2)
            async with served.gateway(new.api_key) as agent:
                await agent.batch([("getSlot",)] * 2)
                with pytest.raises(Denied) as refused:
                    await agent.call("getSlot")
                assert refused.value.constant == "KEY_BUDGET_EXCEEDED" and "wallet" in refused.value.hint
                assert [key.spent_total for key in await Keys(agent).listed()] == [2]
                with pytest.raises(Denied):
                    await Keys(agent).delete(new.key.id)
            changed = await keys.change(new.key.id, credits_total=None, name="bot")
            assert (changed.credits_total, changed.name) == (None, "bot")
            rotated = await keys.rotate(new.key.id)
            assert rotated.api_key != new.api_key
            assert (await keys.delete(new.key.id)).status == "deleted" and await keys.listed() == []
            with pytest.raises(BadRequest):
                await keys.create("bot", methods=["everything"])


def test_limits_that_the_gateway_would_refuse_for_their_length_make_no_key() -> None:
    """Whoever gets the key would learn it by AUTH_FAILED alone."""
    named = "srpc_live_" + "A" * 43
    with pytest.raises(BadCredential, match="at most 1000 bytes"):
        narrow(named, "task", addresses=["203.0.113.0/24"] * 60)
    with pytest.raises(BadCredential, match="named key"):
        narrow("another key", "task")
