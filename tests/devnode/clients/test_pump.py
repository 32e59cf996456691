"""@pump-fun/pump-sdk, unmodified: the platform's own client at a chain that imitates the platform."""

from pathlib import Path

import httpx
from solders.keypair import Keypair

from devnode.encoding.addresses import USDC_MINT
from tests.devnode.conftest import StartDevnode
from tests.npm import Npm

SCRIPT = Path(__file__).with_name("pump_flows.mjs")
KINDS = ("classic", "createV2", "createV2 by v2", "mayhem", "usdc")


def test_what_the_sdk_quotes_is_what_happens(start_devnode: StartDevnode, npm: Npm) -> None:
    """Global, fees and curves decode; launches, buys and sales that it builds land; tokens and money moved equal its
    quotes to the unit, for every kind of coin and both families that it knows."""
    devnode = start_devnode("chain", "--slot-ms", "50")
    wallet = Keypair()
    funding = {"pubkey": str(wallet.pubkey()), "lamports": 100 * 10**9, "usdc_base_units": 10**9}
    assert httpx.post(f"{devnode.url}/admin/fund", json=funding).status_code == 200
    settings = {
        "RPC_URL": devnode.url,
        "WS_URL": devnode.facts["ws_url"],
        "SECRET_KEY": wallet.to_json(),
        "USDC_MINT": str(USDC_MINT),
    }
    checks = npm.run(SCRIPT, settings)
    assert checks.pop("together") is True
    assert set(checks) == set(KINDS)
    for kind, found in checks.items():
        assert found["asExpected"] and found["said"] and found["curveBytes"] == 166, kind
        assert found["bought"] == found["wantedBuy"], kind
        assert found["sold"] == found["wantedSale"], kind
    assert checks["createV2"]["firstQuote"] == ["34199203154141", "1000000000"]
