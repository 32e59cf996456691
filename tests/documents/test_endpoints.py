"""The pages of documents through the real door: public, cached, and told apart by their ETags."""

import json

import pytest

from actors.documents import endpoints
from tests.gateway.world import a_world

from .service import the_offer

PAGES = endpoints.pages(the_offer())
PATHS = [page.path for page in PAGES]


@pytest.mark.parametrize("path", PATHS)
async def test_a_document_is_public_and_asked_for_once(path: str) -> None:
    """RFC 9110: with its ETag the answer is 304 without a body, weak or in a list; with another one it is sent."""
    async with a_world(pages=PAGES) as world:
        first = await world.http.get(path)
        assert first.status_code == 200 and first.headers["cache-control"] == "public, max-age=300"
        assert not any(name.startswith(("x-credits", "x-ratelimit", "x-request-id")) for name in first.headers)
        etag = first.headers["etag"].removeprefix("W/")  # The client takes gzip, so it is a weak one.
        for sent in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            again = await world.http.get(path, headers={"if-none-match": sent})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
            assert "content-length" not in again.headers and "content-type" not in again.headers
        for sent in ('"other"', etag.strip('"'), "", ",", '"' * 8_000, "*,"):
            other = await world.http.get(path, headers={"if-none-match": sent})
            assert (other.status_code, other.content) == (200, first.content)
        plain = await world.http.head(path, headers={"accept-encoding": "identity"})
        assert plain.headers["content-length"] == str(len(first.content)), (
            "its length is known where it is sent as it is"
        )
        assert world.accounts.holds == []


async def test_documents_are_what_their_types_say() -> None:
    """JSON that parses, and a page that may load nothing."""
    async with a_world(pages=PAGES) as world:
        for path in ("/openapi.json", "/openrpc.json"):
            response = await world.http.get(path)
            assert response.headers["content-type"] == "application/json" and json.loads(response.content)
        page = await world.http.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert (await world.http.get("/llms.txt")).headers["content-type"] == "text/plain; charset=utf-8"


def test_a_document_of_another_service_has_another_etag() -> None:
    """A client must not keep what an operator has changed."""
    from dataclasses import replace

    others = endpoints.pages(replace(the_offer(), public_url="https://another.test"))
    assert len({page.handler.__self__.etag for page in (*PAGES, *others)}) == 2 * len(PAGES)  # type: ignore[union-attr]
