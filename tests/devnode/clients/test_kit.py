"""@solana/kit with its token program client, unmodified, straight at a devnode."""

from pathlib import Path

from tests.devnode.conftest import StartDevnode
from tests.npm import Npm

_FLOWS = Path(__file__).parent / "kit_flows.mjs"


def test_payments_tables_v1_tokens_and_subscriptions(start_devnode: StartDevnode, npm: Npm) -> None:
    """All that a wallet or a service does with the library, sent and confirmed over WebSocket by its own means."""
    process = start_devnode("chain", "--slot-ms", "50")
    found = npm.run(_FLOWS, {"RPC_URL": process.url, "WS_URL": process.facts["ws_url"]})
    assert found["subscriptions"] == {
        "lamports": 2_000_000,
        "logsOfPayment": True,
        "err": None,
        "slotAboveParent": True,
    }
    assert found["lookupTable"] == {
        "version": 0,
        "loaded": 3,
        "static": 2,
        "parsed": 3,
        "balances": [2_000_000] * 3,
    }
    v1 = found["v1"]
    hidden = v1.pop("hidden")
    assert v1 == {
        "version": 1,
        "fee": 5_777,
        "balance": 3_000_000,
        "config": {
            "computeUnitLimit": 5_000,
            "heapSize": None,
            "loadedAccountsDataSizeLimit": 100_000,
            "priorityFee": 777,
        },
        "withoutLimits": "MaxLoadedAccountsDataSizeExceeded",
    }
    assert hidden.startswith("Transaction version (1) is not supported by the requesting client.")
    assert found["token"] == {"source": 3_750_000, "destination": "1.25", "supply": "5000000"}
