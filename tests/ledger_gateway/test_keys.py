"""The client of named keys, against the real door."""

import pytest

from ledger_gateway import Denied
from ledger_gateway.errors import BadRequest
from ledger_gateway.keys import Keys
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
