"""PyPI x402 with its sign-in extension, unmodified: the first call pays, the second signs in. Prints one line of JSON.

Run by an interpreter of its own environment, as x402_pay.py is.
"""

import asyncio
import json
import os

from solders.keypair import Keypair
from x402 import x402Client
from x402.extensions.sign_in_with_x.hooks import CreateSIWxClientExtensionOptions, create_siwx_client_extension
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner


async def main() -> None:
    keypair = Keypair.from_base58_string(os.environ["SECRET_KEY"])
    client = x402Client()
    signer = KeypairSigner(keypair)
    register_exact_svm_client(client, signer, rpc_url=os.environ["NODE_URL"])
    client.register_extension(create_siwx_client_extension(CreateSIWxClientExtensionOptions(signers=[signer])))
    call = {"jsonrpc": "2.0", "id": 7, "method": "getSlot"}
    found = []
    for _ in range(3):
        async with x402HttpxClient(client) as http:
            response = await http.post(f"{os.environ['GATEWAY_URL']}/", json=call)
        found.append(
            [response.status_code, "payment-response" in response.headers, response.headers.get("x-credits-remaining")]
        )
    print(json.dumps(found))


asyncio.run(main())
