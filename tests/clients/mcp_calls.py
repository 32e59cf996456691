"""Lists tools and calls some with the official MCP client from PyPI. Prints one line of JSON.

Run by an interpreter of its own environment: version 2 of the package, in the mode that MODE names, or an old one that
speaks 2025-03-26.
"""

import asyncio
import json
import os

URL, HEADERS = f"{os.environ['GATEWAY_URL']}/mcp", {"X-Api-Key": os.environ["API_KEY"]}
KEY = os.environ["PUBKEY"]


async def calls(session) -> dict:
    tools = (await session.list_tools()).tools
    answers = [
        await session.call_tool("getBalance", {"params": [KEY]}),
        await session.call_tool("rpc", {"method": "getSlot"}),
        await session.call_tool("getBlock", {"params": [999_999_999_999]}),
    ]
    found = []
    for answer in answers:
        failed = answer.is_error if hasattr(answer, "is_error") else answer.isError
        found.append({"failed": failed, "text": answer.content[0].text})
    try:
        await session.call_tool("getNothing", {})
        refused = ""
    except Exception as error:  # noqa: BLE001 - each version has an exception of its own.
        refused = str(error)
    return {"tools": [tool.name for tool in tools], "answers": found, "refused": refused}


async def with_version_2() -> dict:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=HEADERS) as http,
        Client(streamable_http_client(URL, http_client=http), mode=os.environ["MODE"]) as client,
    ):
        found = await calls(client)
        return {"version": client.session.protocol_version, **found}


async def with_version_1() -> dict:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(URL, headers=HEADERS) as (read, write, _), ClientSession(read, write) as session:
        version = (await session.initialize()).protocolVersion
        return {"version": version, **await calls(session)}


async def main() -> None:
    try:
        import httpx2  # noqa: F401 - only version 2 of the package brings it.
    except ImportError:
        found = await with_version_1()
    else:
        found = await with_version_2()
    print(json.dumps(found))


asyncio.run(main())
