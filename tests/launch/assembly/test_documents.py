"""The documents of a replica: about the paths that it serves, and one OpenRPC document for both ways to ask."""

import json

import pytest

from actors.config import Config
from actors.documents.endpoints import ENDPOINTS
from actors.gateway.doors import http as door_http
from actors.launch.assembly.documents import discovery, offer_of, with_documents
from actors.pages import Page, PageAnswer, PageRequest
from tests.gateway.world import a_world, call


async def _nothing(request: PageRequest) -> PageAnswer:
    return PageAnswer(b"{}")


def test_the_offer_has_all_that_is_served() -> None:
    """As GET /capabilities lists it: the doors' own paths, the pages of contexts, and the documents."""
    offer = offer_of(Config(), [Page("GET", "/new", _nothing)])
    assert list(offer.served) == [*door_http.endpoints(relay=False), "GET /new", *ENDPOINTS]
    assert not any(method.row.name == "sendBundle" for method in offer.methods)


@pytest.mark.parametrize(
    ("url", "target", "is_tls"),
    [
        (None, "127.0.0.1:8082", False),
        ("http://gateway.test", "gateway.test:8082", False),
        ("https://gateway.test", "gateway.test:443", True),
        ("https://[::1]:8443", "[::1]:8443", True),
    ],
)
def test_grpc_has_the_port_of_https_or_its_own(url: str | None, target: str, is_tls: bool) -> None:
    """Interface, "gRPC streaming": with TLS one port serves both."""
    upstream = {"yellowstone_url": "http://127.0.0.1:10000"}
    streams = offer_of(Config.model_validate({"serve": {"public_url": url}, "upstream": upstream})).streams
    assert (streams.grpc_target, streams.grpc_is_tls) == (target, is_tls)
    assert offer_of(Config()).streams.grpc_target == ""


async def test_rpc_discover_answers_with_the_document_for_free() -> None:
    """OpenRPC: it costs no credits and one rate unit, and needs a credential as every call does."""
    pages, discover = with_documents(Config(), []), discovery(Config())["rpc.discover"]
    async with a_world(pages=pages) as world:
        answer = await discover(b"[]", 5_000)
        world.node.answer = lambda method, params: answer
        customer = await world.customer()
        response = await world.rpc(customer, call("rpc.discover"))
        assert response.json()["result"] == (await world.http.get("/openrpc.json")).json()
        assert response.headers["x-ratelimit-remaining"] == "99" and response.headers["x-credits-cost"] == "0"
        assert (await world.rpc(None, call("rpc.discover"))).status_code == 402
        assert await world.debits(customer) == []
        assert json.loads((await world.http.get("/openapi.json")).content)["openapi"] == "3.1.0"
