"""@solana/web3.js 1.x with @solana/spl-token, unmodified, straight at a devnode."""

import base64
from pathlib import Path
from typing import Any

import httpx
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from tests.devnode.conftest import Process, StartDevnode
from tests.devnode.local_node import give
from tests.npm import Npm

_FLOWS = Path(__file__).parent / "web3_flows.mjs"
_TOO_NEW = "failed to get transaction: Transaction version ({}) is not supported by the requesting client."


def landed_v1(process: Process) -> str:
    """The signature of a v1 transaction: web3.js 1.x cannot build one, solders can."""

    def call(method: str, *params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(process.url, json=request).json()["result"]

    payer = Keypair()
    call("requestAirdrop", str(payer.pubkey()), 10**9)
    blockhash = Hash.from_string(call("getLatestBlockhash", {"commitment": "processed"})["value"]["blockhash"])
    config = TransactionConfig(compute_unit_limit=1_000, loaded_accounts_data_size_limit=1_000)
    instruction = give(payer, Pubkey.new_unique(), 2_000_000)
    message = MessageV1.try_compile(payer.pubkey(), [instruction], blockhash, config=config)
    encoded = base64.b64encode(bytes(VersionedTransaction(message, [payer]))).decode()
    signature: str = call("sendTransaction", encoded, {"encoding": "base64", "preflightCommitment": "processed"})
    return signature


def test_payments_tables_tokens_and_subscriptions(start_devnode: StartDevnode, npm: Npm) -> None:
    """The library is given a URL and nothing else; it finds WebSockets on the port above by itself."""
    process = start_devnode("chain", "--slot-ms", "50")
    found = npm.run(_FLOWS, {"RPC_URL": process.url, "V1_SIGNATURE": landed_v1(process)})
    assert found["subscriptions"] == {
        "lamports": 2_000_000,
        "logsOfPayment": True,
        "err": None,
        "slotAboveParent": True,
        "ofProgram": 2_000_000,
        "signature": None,
    }
    table = found["lookupTable"]
    assert table.pop("tooNew").startswith(_TOO_NEW.format(0))
    assert table == {
        "version": 0,
        "loaded": 3,
        "static": 2,
        "addresses": 3,
        "parsed": 3,
        "balances": [2_000_000] * 3,
    }
    assert found["v1"]["hidden"].startswith(_TOO_NEW.format(1)) and found["v1"]["status"] is None
    assert found["token"] == {"source": 3_750_000, "destination": "1.25", "supply": 5_000_000}
    assert found["refused"]["name"] == "SendTransactionError"
    assert any("insufficient lamports" in line for line in found["refused"]["logs"])
