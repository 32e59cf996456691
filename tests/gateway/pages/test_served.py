"""Pages of other contexts through the real door."""

import json

import pytest

from actors.errors import Err, Refusal
from actors.pages import Page, PageAnswer, PageRequest, json_answer
from tests.gateway.test_short_way import Client
from tests.gateway.test_wire import listening
from tests.gateway.world import a_world, constant


async def tell(request: PageRequest) -> PageAnswer | Refusal:
    """Answers with what it was asked."""
    if request.query.get("refuse"):
        return Refusal(Err.NOT_FOUND, "there is no such thing")
    return json_answer(
        {
            "pubkey": request.pubkey and request.pubkey.hex(),
            "parameters": dict(request.parameters),
            "query": dict(request.query),
            "body": request.body.decode(),
            "headers": sorted(request.headers),
        },
        201 if request.query.get("made") else 200,
        [("cache-control", "no-store")],
    )


async def text(request: PageRequest) -> PageAnswer:
    return PageAnswer(b"# words", content_type="text/markdown; charset=utf-8")


PAGES = (
    *(Page(method, "/things", tell) for method in ("GET", "POST")),
    *(Page(method, "/things/{id}", tell) for method in ("PUT", "PATCH", "DELETE")),
    Page("GET", "/words", text, is_public=True, is_limited=False),
    Page("POST", "/words", tell, is_public=True),
)
FIGURES = ("x-credits", "x-ratelimit", "ratelimit")


def figures(response) -> list[str]:
    return [name for name in response.headers if name.startswith(FIGURES)]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/things", b""),
        ("POST", "/things", b'{"a":1}'),
        ("PUT", "/things/t_1", b"x"),
        ("PATCH", "/things/t_1", b"{}"),
        ("DELETE", "/things/t_1", b""),
    ],
)
async def test_a_page_gets_a_proven_account_and_its_answer_carries_the_figures(method, path, body):
    """Interface, "Authentication" and "Limits": every method, any credential; the page sees no credential."""
    async with a_world(pages=PAGES) as world:
        customer = await world.customer(50)
        signed = customer.headers(method, path, body)
        for headers in (signed, {"x-api-key": customer.api_key}):
            response = await world.http.request(method, f"{path}?made=1", content=body, headers=headers)
            assert response.status_code == 201, response.text
            told = response.json()
            assert told["pubkey"] == customer.pubkey.hex()
            assert told["parameters"] == ({"id": "t_1"} if path.count("/") > 1 else {})
            assert (told["query"], told["body"]) == ({"made": "1"}, body.decode())
            assert not {"x-api-key", "x-signature", "x-pubkey"} & set(told["headers"])
            assert response.headers["x-credits-remaining"] == "50"
            assert "x-request-id" in response.headers
            assert response.headers["cache-control"] == "no-store"
            refused = await world.http.request(
                method, f"{path}?refuse=1&api-key={customer.api_key}", content=body, headers={}
            )
            assert (refused.status_code, constant(refused)) == (404, "NOT_FOUND")
            assert refused.headers["x-credits-remaining"] == "50"
        replayed = await world.http.request(method, f"{path}?q=1", content=body, headers=signed)
        assert (replayed.status_code, constant(replayed)) == (403, "NONCE_REUSED")


async def test_who_may_not_ask_is_told_as_on_account_pages():
    """Interface, "Priority and failure": 402 with terms, 401, 404 for a wallet without account; the page never runs."""
    async with a_world(pages=PAGES) as world:
        nobody = await world.customer(account=False)
        for headers, status, name in (
            ({}, 402, "PAYMENT_REQUIRED"),
            ({"x-api-key": "nonsense"}, 401, "AUTH_FAILED"),
            (nobody.headers("GET", "/things", b""), 404, "ACCOUNT_NOT_FOUND"),
        ):
            response = await world.http.get("/things", headers=headers)
            assert (response.status_code, constant(response)) == (status, name)
        assert "payment-required" in (await world.http.get("/things")).headers
        world.accounts.down = True
        gone = await world.http.get("/things", headers=nobody.headers("GET", "/things", b""))
        assert gone.status_code == 503


async def test_a_public_page_measures_nobody_and_may_be_no_json():
    """Interface, "Public endpoints": no credentials are looked at, no figures and no X-Request-Id are sent."""
    async with a_world(pages=PAGES) as world:
        for headers in ({}, {"x-api-key": "nonsense"}):
            response = await world.http.get("/words", headers=headers)
            assert (response.status_code, response.text) == (200, "# words")
            assert response.headers["content-type"] == "text/markdown; charset=utf-8"
            assert not figures(response) and "x-request-id" not in response.headers
            told = (await world.http.post("/words", headers=headers)).json()
            assert told["pubkey"] is None
            assert (await world.http.head("/words")).headers["content-length"] == "7"


async def test_other_methods_are_405_other_paths_404_and_options_is_as_everywhere():
    """A sentence and `Allow` name the methods; preflights allow those of pages."""
    async with a_world(pages=PAGES) as world:
        for method, path, methods in (
            ("DELETE", "/things", "GET, POST"),
            ("GET", "/things/1", "PUT, PATCH, DELETE"),
            ("HEAD", "/things/1", ""),
        ):
            response = await world.http.request(method, path)
            assert response.status_code == 405
            assert methods in response.text and "OPTIONS" in response.headers["allow"]
        assert (await world.http.get("/things/1/2")).status_code == 404
        preflight = await world.http.options("/things/1", headers={"origin": "https://a.example"})
        assert preflight.status_code == 204
        assert "DELETE" in preflight.headers["access-control-allow-methods"]


async def test_pages_count_against_the_limit_of_an_address():
    """Threat 35: as /account/*, unless the page says otherwise; a 405 is not counted."""
    async with a_world(pages=PAGES, identity={"address_requests_per_minute": 2}) as world:
        asked = ["/things", "/things", "/things/x", "/things", "/words", "/words", "/words"]
        statuses = [(await world.http.get(path)).status_code for path in asked]
        assert statuses == [402, 402, 405, 429, 200, 200, 200]


@pytest.mark.parametrize("query", ["a=1&a=2", "a=%ff", "&".join(f"a{n}=1" for n in range(51))])
async def test_a_query_in_doubt_is_refused(query):
    """Two programs could read different values of a parameter that comes twice."""
    async with a_world(pages=PAGES) as world:
        customer = await world.customer(5)
        response = await world.http.get(f"/things?{query}", headers={"x-api-key": customer.api_key})
        assert (response.status_code, constant(response)) == (400, "INVALID_REQUEST")


async def test_bodies_and_no_bodies_over_a_socket():
    """PATCH with a body, DELETE without one and HEAD keep one connection, one after the other."""
    async with a_world(pages=PAGES) as world:
        customer = await world.customer(5)
        key = f"x-api-key: {customer.api_key}\r\n".encode()
        async with listening(world.door) as port:
            client = await Client.connect(port)
            client.send(
                b"PATCH /things/7 HTTP/1.1\r\nhost: a\r\n" + key + b"content-length: 2\r\n\r\n{}",
                b"DELETE /things/7 HTTP/1.1\r\nhost: a\r\n" + key + b"\r\n",
                b"GET /things HTTP/1.1\r\nhost: a\r\n" + key + b"\r\n",
            )
            answers = await client.read(3)
            assert [status for status, _, _ in answers] == [200, 200, 200]
            assert [json.loads(body)["body"] for _, _, body in answers] == ["{}", "", ""]
            client.writer.close()


@pytest.mark.parametrize("path", ["/things", "/words", "/account/confirm-deposit", "/auth/challenge", "/x402/settle"])
async def test_a_body_with_too_many_brackets_reaches_no_page(path):
    """Threat 61: 87,000 empty arrays hold the event loop for 20 ms, whoever would read them."""
    async with a_world(pages=PAGES) as world:
        customer = await world.customer(50)
        body = b"[" + b",".join([b"[]"] * 5_000) + b"]"
        response = await world.http.post(path, content=body, headers={"x-api-key": customer.api_key})
        assert (response.status_code, constant(response)) == (400, "INVALID_REQUEST")
        assert "4096 objects and arrays" in response.text
        assert bool(figures(response)) is (path in ("/things", "/account/confirm-deposit"))
