"""Who is let through to /operator/*, through the real door. Rule: decisions, "The operators' page"."""

import asyncio

import pytest
from pydantic import SecretStr

from actors.gateway.pages.operator_guard import is_operators
from actors.operator_config import OperatorConfig
from tests.gateway.world import constant
from tests.operators.world import TOKEN, operated

PATHS = [
    *(("GET", "accounts"), ("GET", "deposits"), ("GET", "nodes"), ("GET", "owners"), ("GET", "alerts")),
    *(("POST", "nodes"), ("PATCH", "nodes/node-1"), ("DELETE", "nodes/node-1"), ("HEAD", "alerts")),
    ("POST", f"accounts/{'1' * 32}/adjust"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_nothing_is_told_or_changed_without_the_token(method: str, path: str) -> None:
    """No token, another one, a customer's key as the token, a customer's other credentials, the token in the URL or
    twice: each gets 401 before its body is read."""
    async with operated() as one:
        customer = await one.world.customer(50)
        for token in ("", "x", TOKEN + "7", TOKEN[:-1], TOKEN.upper(), customer.api_key, "7" * 400):
            answer = await one.ask(method, path, b"{" * 300_000, x_operator_token=token)
            assert answer.status_code == 401, (token, answer.text)
        http = one.world.http
        signed = customer.headers(method, f"/operator/{path}", b"")
        for headers in ({"x-api-key": customer.api_key}, {"authorization": f"Bearer {TOKEN}"}, signed):
            assert (await http.request(method, f"/operator/{path}", headers=headers)).status_code == 401
        in_url = await http.request(method, f"/operator/{path}?x-operator-token={TOKEN}&api-key={TOKEN}")
        assert in_url.status_code == 401 and TOKEN not in in_url.text
        twice = [("x-operator-token", TOKEN), ("x-operator-token", "x")]
        assert (await http.request(method, f"/operator/{path}", headers=twice)).status_code == 401
        assert await one.world.balance(customer) == 50 and not one.nodes.asked and not one.transfers.asked


async def test_a_flood_of_guesses_is_cut_off_and_locks_no_operator_out() -> None:
    """Wrong tokens count against their address, as other refused credentials do; the right one is never counted."""
    async with operated(identity={"address_requests_per_minute": 20}) as one:
        guesses = await asyncio.gather(*(one.ask("GET", "alerts", x_operator_token=f"guess-{at}") for at in range(60)))
        codes = [answer.status_code for answer in guesses]
        assert codes.count(401) == 20 and codes.count(429) == 40
        for _ in range(30):
            assert (await one.ask("GET", "alerts")).status_code == 200


async def test_a_service_without_a_token_names_the_setting() -> None:
    async with operated(OperatorConfig()) as one:
        answer = await one.ask("GET", "alerts")
        assert answer.status_code == 403 and "LEDGER_OPERATOR__TOKEN" in answer.text
        assert (await one.world.http.get("/operator")).status_code == 200


@pytest.mark.parametrize(("peer", "allowed"), [("10.1.2.3", True), ("203.0.113.7", False), ("2001:db8::1", True)])
async def test_only_the_addresses_of_the_setting_are_answered(peer: str, allowed: bool) -> None:
    """Right token or not; whose address is not known is none of them."""
    config = OperatorConfig(token=SecretStr(TOKEN), addresses=("10.0.0.0/8", "2001:db8::/32"))
    async with operated(config, identity={"trusted_proxies": ["127.0.0.1"]}) as one:
        answer = await one.ask("GET", "alerts", x_forwarded_for=peer)
        assert answer.status_code == (200 if allowed else 403), answer.text
    async with operated(config, peers_are_clients=False) as one:
        assert (await one.ask("GET", "alerts")).status_code == 403


async def test_no_page_of_another_origin_may_ask_or_read() -> None:
    """No CORS header on any answer, so a browser sends no token from elsewhere; customers' paths keep theirs."""
    async with operated() as one:
        foreign = {"origin": "https://evil.example", "access-control-request-headers": "x-operator-token"}
        for path in ("/operator", "/operator/alerts", "/operator/nope"):
            for method in ("OPTIONS", "GET", "POST", "TRACE"):
                answer = await one.world.http.request(method, path, headers=foreign)
                assert not [name for name in answer.headers if name.startswith("access-control")], (method, path)
        preflight = await one.world.http.options("/", headers=foreign)
        assert "x-operator-token" not in preflight.headers["access-control-allow-headers"].lower()
        told = await one.ask("GET", "alerts", origin="https://evil.example")
        assert told.status_code == 200 and "access-control-allow-origin" not in told.headers
        assert told.headers["cache-control"] == "no-store" and told.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("PUT", "nodes", 405), ("DELETE", "accounts", 405), ("POST", "alerts", 405), ("GET", "nodes/node-1", 405)),
        *(("GET", "", 404), ("GET", "nope", 404), ("GET", "accounts/", 404), ("GET", "accounts/%2e%2e", 404)),
        *(("GET", "alerts/", 404), ("POST", "accounts/x/close", 404)),
    ],
)
async def test_other_methods_and_paths_do_not_exist(method: str, path: str, status: int) -> None:
    async with operated() as one:
        answer = await one.ask(method, path)
        assert answer.status_code == status, answer.text
        assert constant(answer) in ("NOT_FOUND", "WRONG_HTTP_METHOD")


@pytest.mark.parametrize(
    ("path", "yes"), [(b"/operator", True), (b"/operator/x", True), (b"/operators", False), (b"/", False)]
)
def test_paths_of_operators_are_told_from_others(path: bytes, yes: bool) -> None:
    assert is_operators(path) is yes
