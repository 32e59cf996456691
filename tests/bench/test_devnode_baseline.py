"""The node written by hand: it must really execute, or the comparison means nothing."""

import base64

import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from starlette.testclient import TestClient

from bench.devnode_baseline import app


@pytest.fixture
def client() -> TestClient:
    return TestClient(app)


def test_a_payment_moves_money_and_a_bad_one_does_not(client: TestClient) -> None:
    """The four methods that the load uses."""

    def call(method: str, *params: object) -> dict[str, object]:
        reply: dict[str, object] = client.post(
            "/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        ).json()
        return reply

    payer, to = Keypair(), Keypair().pubkey()
    call("requestAirdrop", str(payer.pubkey()), 10**9)
    latest = call("getLatestBlockhash")["result"]["value"]["blockhash"]  # type: ignore[index]
    for lamports, outcome in ((2_000_000, "result"), (10**12, "error")):
        give = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=lamports))
        message = MessageV0.try_compile(payer.pubkey(), [give], [], Hash.from_string(latest))
        raw = bytes(VersionedTransaction(message, [payer]))
        assert outcome in call("sendTransaction", base64.b64encode(raw).decode())
    value = call("getAccountInfo", str(to))["result"]["value"]  # type: ignore[index]
    assert value["lamports"] == 2_000_000
    assert "error" in call("getBlock", 1)
