"""A wallet without an account, with PyPI x402 as its registry ships it: one call, answered. Prints one line of JSON.

Run by an interpreter of its own environment: the package needs another solders than the product does.
"""

import asyncio
import json
import os

from solders.keypair import Keypair
from x402 import x402Client
from x402.http.clients.httpx import x402HttpxClient
from x402.http.utils import decode_payment_response_header
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner


async def main() -> None:
    keypair = Keypair.from_base58_string(os.environ["SECRET_KEY"])
    client = x402Client()
    register_exact_svm_client(client, KeypairSigner(keypair), rpc_url=os.environ["NODE_URL"])
    call = {"jsonrpc": "2.0", "id": 7, "method": "getBalance", "params": [str(keypair.pubkey())]}
    async with x402HttpxClient(client) as http:  # Its own timeout, 5 s, is left as it is.
        response = await http.post(f"{os.environ['GATEWAY_URL']}/", json=call)
    header = response.headers.get("payment-response")
    receipt = decode_payment_response_header(header) if header else None
    print(
        json.dumps(
            {
                "status": response.status_code,
                "body": response.json(),
                "receipt": receipt and receipt.model_dump(by_alias=True, mode="json"),
                "remaining": response.headers.get("x-credits-remaining"),
            }
        )
    )


asyncio.run(main())
