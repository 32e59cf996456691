"""jito-js-rpc, the block engine's own client, unmodified, straight at a devnode."""

from pathlib import Path

from tests.devnode.conftest import StartDevnode
from tests.npm import Npm

_FLOWS = Path(__file__).parent / "jito_flows.mjs"


def test_bundles_land_whole_or_not_at_all(start_devnode: StartDevnode, npm: Npm) -> None:
    """From a tip account to the confirmed bundle; a bundle that fails leaves the receiver as it was."""
    process = start_devnode("chain", "--slot-ms", "50")
    assert npm.run(_FLOWS, {"RPC_URL": process.url}) == {
        "landed": {"transactions": 2, "err": {"Ok": None}, "balance": 5_000_000},
        "failed": "Failed",
        "balanceAfter": 5_000_000,
        "bundleOnly": "string",
        "refused": {"status": 400, "code": -32602},
    }
