"""The Python client beside x402's own: it pays for what the gateway answers with 402."""

import json
import subprocess
from pathlib import Path

import base58
import msgspec

from bench.product import ROOT, Product
from tests.clients.test_x402 import Payer

_RUN_SECONDS = 180
_SCRIPT = """
import asyncio, json, os

from ledger_gateway import Gateway
from solders.keypair import Keypair
from x402 import x402Client
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner


async def main():
    payer = x402Client()
    signer = KeypairSigner(Keypair.from_base58_string(os.environ["SECRET_KEY"]))
    register_exact_svm_client(payer, signer, rpc_url=os.environ["NODE_URL"])
    async with x402HttpxClient(payer) as http, Gateway(os.environ["GATEWAY_URL"], http=http) as gateway:
        slot = await gateway.call("getSlot")
        print(json.dumps({"slot": slot, "left": gateway.figures.credits_remaining}))


asyncio.run(main())
"""


def test_x402s_client_pays_for_the_clients_call(product: Product, python_of_x402: Path, tmp_path: Path) -> None:
    """README of the client, "Paying with x402": a fresh wallet, no key, one call, one payment of $0.10."""
    for package in (msgspec, base58):  # Packages that x402's environment lacks; both are of the same interpreter.
        assert package.__file__ is not None
        (tmp_path / package.__name__).symlink_to(Path(package.__file__).parent)
    (tmp_path / "ledger_gateway").symlink_to(ROOT / "ledger_gateway")
    payer = Payer(product)
    done = subprocess.run(
        [str(python_of_x402), "-c", _SCRIPT],
        env={**payer.settings, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["slot"] > 0 and told["left"] == 9_999
    entries = payer.ask("GET", "/account/ledger").body["entries"]
    assert [entry["type"] for entry in entries] == ["debit", "deposit"]
