"""A wallet without an account, with the MCP client and the x402 client for MCP as PyPI ships them: it lists the tools,
calls one, is told the terms, pays, and then tries the same payment again. Prints one line of JSON.

Run by an interpreter of its own environment: version 2 of mcp, in the mode that MODE names, with x402MCPClient; or a
version 1 of it, with x402MCPSession, which knows that version alone.
"""

import asyncio
import json
import os
from importlib.metadata import version
from types import SimpleNamespace

from solders.keypair import Keypair
from x402 import x402Client
from x402.mcp import MCP_PAYMENT_META_KEY, x402MCPClient, x402MCPSession
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

URL = f"{os.environ['GATEWAY_URL']}/mcp"
KEYPAIR = Keypair.from_base58_string(os.environ["SECRET_KEY"])
TOOL, ARGUMENTS = "getBalance", {"params": [str(KEYPAIR.pubkey())]}


class WithVersion1Names:
    """The client of mcp 2 under the names by which x402MCPClient asks a client; it changes no value."""

    def __init__(self, client):
        self._client = client
        self.list_tools = client.list_tools

    async def call_tool(self, params, read_timeout_seconds):
        result = await self._client.call_tool(
            *(params["name"], params["arguments"], read_timeout_seconds.total_seconds()), meta=params.get("_meta")
        )
        content = [one.model_dump(by_alias=True) for one in result.content]
        return SimpleNamespace(
            content=content, isError=result.is_error, structuredContent=result.structured_content, _meta=result.meta
        )


class Payer:
    """The x402 client, and the terms and payments that pass through it."""

    def __init__(self):
        self.terms, self.payments = [], []
        self.client = x402Client()
        register_exact_svm_client(self.client, KeypairSigner(KEYPAIR), rpc_url=os.environ["NODE_URL"])
        self.client.on_after_payment_creation(self._note)

    def _note(self, context) -> None:
        self.terms.append(context.payment_required.model_dump(by_alias=True, mode="json"))
        self.payments.append(context.payment_payload)


def told(result) -> dict:
    content = [one if isinstance(one, dict) else one.model_dump(by_alias=True) for one in result.content]
    receipt = result.payment_response
    return {
        "failed": result.is_error,
        "text": content[0]["text"],
        "paid": result.payment_made,
        "receipt": receipt and receipt.model_dump(by_alias=True, mode="json"),
    }


async def with_version_2(payer: Payer) -> dict:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(timeout=60) as http,
        Client(streamable_http_client(URL, http_client=http), mode=os.environ["MODE"]) as client,
    ):
        paying = x402MCPClient(WithVersion1Names(client), payer.client)
        tools = (await paying.list_tools()).tools
        paid = await paying.call_tool(TOOL, ARGUMENTS)
        again = await paying.call_tool_with_payment(TOOL, ARGUMENTS, payer.payments[0])
        spoken = client.session.protocol_version
    return {"version": spoken, "tools": len(tools), "paid": told(paid), "again": told(again)}


async def with_version_1(payer: Payer) -> dict:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(URL) as (read, write, _), ClientSession(read, write) as session:
        spoken = (await session.initialize()).protocolVersion
        paying = x402MCPSession(session, payer.client)
        tools = (await paying.list_tools()).tools
        paid = await paying.call_tool(TOOL, ARGUMENTS)
        payment = payer.payments[0].model_dump(by_alias=True)
        again = await session.call_tool(TOOL, ARGUMENTS, meta={MCP_PAYMENT_META_KEY: payment})
        refused = {"failed": again.isError, "receipt": again.meta["x402/payment-response"]}
    return {"version": spoken, "tools": len(tools), "paid": told(paid), "again": refused}


async def main() -> None:
    payer = Payer()
    found = await (with_version_1 if version("mcp").startswith("1.") else with_version_2)(payer)
    print(json.dumps({"terms": payer.terms, **found}))


asyncio.run(main())
