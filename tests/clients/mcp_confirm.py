"""Sends a transaction with the official MCP client from PyPI, whose user is asked. Prints one line of JSON.

SAYS: yes or no, what the user answers. Run by an interpreter of its own environment.
"""

import asyncio
import json
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

URL, HEADERS = f"{os.environ['GATEWAY_URL']}/mcp", {"X-Api-Key": os.environ["API_KEY"]}
questions = []


async def user(context, params):
    questions.append(params.message)
    if os.environ["SAYS"] == "no":
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["required"], True))


async def main() -> None:
    async with (
        httpx2.AsyncClient(headers=HEADERS, timeout=60) as http,
        Client(streamable_http_client(URL, http_client=http), elicitation_callback=user) as client,
    ):
        await client.list_tools()  # From here on it holds results against the output schemas.
        sent = await client.call_tool("sendAndConfirm", {"params": [os.environ["TRANSACTION"]]})
        large = await client.call_tool("rpc.discover", {})
        found = {"failed": sent.is_error, "structured": sent.structured_content, "text": sent.content[0].text}
        print(json.dumps({"questions": questions, "sent": found, "large": large.structured_content}))


asyncio.run(main())
