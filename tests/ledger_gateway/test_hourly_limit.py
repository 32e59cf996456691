"""The client of the hourly limit, against the real door."""

import pytest

from ledger_gateway import Denied
from ledger_gateway.errors import BadRequest
from ledger_gateway.hourly_limit import hourly_limit, lift_hourly_limit, set_hourly_limit
from tests.gateway.pages.test_hourly_limit import Pages
from tests.ledger_gateway.world import a_gateway


async def test_a_wallet_stops_and_lifts_its_own_spending() -> None:
    pages = Pages()
    async with a_gateway(pages=pages.pages()) as served:
        pages.open(served.world)
        wallet = await served.wallet(1_000)
        async with served.gateway(wallet) as owner:
            assert (await hourly_limit(owner)).setting == "learnt"
            assert (await set_hourly_limit(owner, 2)).credits_an_hour == 2
            await owner.batch([("getSlot",)] * 2)
            with pytest.raises(Denied) as refused:
                await owner.call("getSlot")
            assert refused.value.constant == "HOURLY_LIMIT_EXCEEDED" and "lift" in refused.value.hint
            assert (await lift_hourly_limit(owner, 60)).stage == "lifted"
            await owner.call("getSlot")
            assert (await set_hourly_limit(owner, None)).credits_an_hour is None
            with pytest.raises(BadRequest):
                await set_hourly_limit(owner, -1)
