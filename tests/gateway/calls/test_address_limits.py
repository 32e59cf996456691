"""Whose address a request counts under, and what that costs whom, through the real door. Threats 35 and 49."""

import httpx
import pytest

from actors.gateway.calls.address_limits import counted_address
from actors.gateway.calls.requests import AsgiClient
from actors.identity.client_addresses import FRONT_HEADER, UNKNOWN, TrustedProxies, front_token
from actors.identity.store import IdentityStoreUnavailable
from actors.pages import Page, PageAnswer, PageRequest
from tests.gateway.world import a_world, call
from tests.identity.memory_store import MemoryIdentityStore


class NoCounts(MemoryIdentityStore):
    """Redis cannot count."""

    async def count_address(self, address: str, minute: int, amount: int) -> int:
        raise IdentityStoreUnavailable("away")


@pytest.mark.parametrize("store", [None, NoCounts()])
@pytest.mark.threat(35)
async def test_an_address_has_its_limit_on_account_and_session_paths(store):
    """Threat 35: 429 with Retry-After, also while Redis is away; JSON-RPC, public pages and paths that do not
    exist are not counted, and the next minute starts anew."""
    async with a_world(identity_store=store, identity={"address_requests_per_minute": 3}) as world:
        paths = ("/account/info", "/auth/nothing", "/account/ledger", "/account/history", "/account/info")
        responses = [await world.http.get(path) for path in paths]
        assert [response.status_code for response in responses] == [402, 404, 402, 402, 429]
        refused = responses[4]
        assert refused.json()["error"]["code"] == "RATE_LIMITED"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["x-ratelimit-limit"] == "3"
        assert (await world.http.get("/health")).status_code == 503
        assert (await world.rpc(None, call())).status_code == 402
        world.clock.advance(60)
        assert (await world.http.get("/account/info")).status_code == 402


@pytest.mark.threat(35)
async def test_a_trusted_proxys_clients_are_counted_apart():
    """Threat 35: X-Forwarded-For counts only where the peer is trusted."""
    async with a_world(identity={"address_requests_per_minute": 1, "trusted_proxies": ("127.0.0.1",)}) as world:
        for address, status in (("203.0.113.1", 402), ("203.0.113.2", 402), ("203.0.113.1", 429)):
            response = await world.http.get("/account/info", headers={"x-forwarded-for": address})
            assert response.status_code == status


def through_front(address: str, token: bytes = front_token(b"s" * 32)) -> dict[str, str]:
    """The header that the front writes for a client at this address."""
    return {FRONT_HEADER.decode(): f"{token.decode()} {address}"}


@pytest.mark.threat(49)
async def test_requests_for_what_does_not_exist_use_up_nobodys_allowance():
    """Threat 49: a 404 or 405 below /account, /auth and /x402 is not counted."""
    async with a_world(identity={"address_requests_per_minute": 3}) as world:
        customer = await world.customer(10)  # The first request of the three.
        for path in ("/account/nothing", "/auth/nothing", "/x402/nothing", "/account/", "/auth/challenge") * 5:
            assert (await world.http.get(path)).status_code == (405 if path == "/auth/challenge" else 404)
        info = await world.http.get("/account/info", headers={"x-api-key": customer.api_key})
        challenge = await world.http.post("/auth/challenge", json={"pubkey": customer.text})
        assert (info.status_code, challenge.status_code) == (200, 200)


@pytest.mark.threat(49)
async def test_requests_without_credentials_do_not_lock_customers_out():
    """Threat 49: behind one address, who sends no credentials to /account/* uses up a count of their own."""
    async with a_world(identity={"address_requests_per_minute": 3}) as world:
        customer = await world.customer(10)
        strangers = [(await world.http.get("/account/info")).status_code for _ in range(6)]
        info = await world.http.get("/account/info", headers={"x-api-key": customer.api_key})
        challenge = await world.http.post("/auth/challenge", json={"pubkey": customer.text})
        assert strangers == [402, 402, 402, 429, 429, 429]
        assert (info.status_code, challenge.status_code) == (200, 200)


@pytest.mark.threat(49)
async def test_clients_of_the_front_are_counted_apart():
    """Threat 49: all requests come from the front's own address; one place that uses up its allowance stops
    nobody else."""
    async with a_world(identity={"address_requests_per_minute": 2}) as world:
        for address, statuses in (("203.0.113.1", [402, 402, 429]), ("203.0.113.2", [402, 402, 429])):
            found = [await world.http.get("/account/info", headers=through_front(address)) for _ in range(3)]
            assert [response.status_code for response in found] == statuses


async def test_a_strangers_word_for_the_fronts_is_not_believed():
    """Whoever reaches a replica without the front's token is counted under the address it connects from, whatever it
    writes; and what it writes beside the front's own word changes nothing."""
    async with a_world(identity={"address_requests_per_minute": 2}) as world:
        forged = [through_front(f"203.0.113.{number}", b"x" * 32) for number in range(3)]
        found = [await world.http.get("/account/info", headers=headers) for headers in forged]
        assert [response.status_code for response in found] == [402, 402, 429]
        # What HAProxy leaves out for a client, a trailer could still add: the front's own word counts all the same.
        name, says = next(iter(through_front("203.0.113.9").items()))
        for status in (402, 402, 429):
            claims = [(name, f"{'x' * 32} 203.0.113.77"), (name, says), ("x-forwarded-for", "203.0.113.78")]
            assert (await world.http.get("/account/info", headers=claims)).status_code == status


async def test_where_addresses_are_hidden_nobody_is_locked_out():
    """A proxy that tells no addresses leaves one shared address, which has no limit: a stranger would use it up for
    all. The same for a trusted proxy that names no client."""
    async with a_world(peers_are_clients=False, identity={"address_requests_per_minute": 1}) as world:
        assert {(await world.http.get("/account/info")).status_code for _ in range(5)} == {402}
    async with a_world(identity={"address_requests_per_minute": 1, "trusted_proxies": ("127.0.0.1",)}) as world:
        assert {(await world.http.get("/account/info")).status_code for _ in range(5)} == {402}


async def test_an_ipv6_site_has_a_larger_allowance_than_its_lines():
    """A /64 has one allowance and its /48 ten times that: neither one line nor 65,536 lines of one site escape it, and
    what a line is refused is not taken from the site."""
    async with a_world(identity={"address_requests_per_minute": 2}) as world:

        async def ask(address: str) -> int:
            return (await world.http.get("/account/info", headers=through_front(address))).status_code

        one_line = [await ask(f"2001:db8:1:0::{number:x}") for number in range(30)]
        assert one_line == [402] * 2 + [429] * 28
        lines = [await ask(f"2001:db8:1:{number:x}::1") for number in range(1, 30)]
        assert lines == [402] * 18 + [429] * 11
        assert await ask("2001:db8:2:1::1") == 402


@pytest.mark.threat(35)
async def test_challenges_for_a_flood_of_keys_take_no_memory():
    """Threat 35: the address limit bites first, and what is answered leaves nothing behind."""
    store = MemoryIdentityStore()
    async with a_world(identity_store=store, identity={"address_requests_per_minute": 50}) as world:
        statuses = []
        for _ in range(60):
            stranger = await world.customer(account=False)
            statuses.append((await world.http.post("/auth/challenge", json={"pubkey": stranger.text})).status_code)
        assert statuses == [200] * 50 + [429] * 10
        assert store._sessions == {}
        assert not any(record.nonces for record in store._records.values())


async def test_a_public_page_has_a_limit_for_each_address_that_needs_no_store():
    """Rule of `Page.minute_max`: counted in memory, so Redis is never asked; 429 with Retry-After, others go on, the
    limits of the customers' paths are untouched, and the next minute starts anew."""

    class Unasked(MemoryIdentityStore):
        async def count_address(self, address: str, minute: int, amount: int) -> int:
            raise AssertionError("a public page waits for the store")

    async def shown(request: PageRequest) -> PageAnswer:
        return PageAnswer(b"{}")

    pages = (Page("GET", "/shown", shown, is_public=True, is_limited=False, minute_max=3),)
    async with a_world(pages=pages, identity_store=Unasked()) as world:

        async def ask(address: str) -> httpx.Response:
            return await world.http.get("/shown", headers=through_front(address))

        found = [await ask("203.0.113.1") for _ in range(5)]
        assert [response.status_code for response in found] == [200, 200, 200, 429, 429]
        assert found[4].json()["error"]["code"] == "RATE_LIMITED"
        assert 1 <= int(found[4].headers["retry-after"]) <= 60
        assert (await ask("203.0.113.2")).status_code == 200
        world.clock.advance(60)
        assert (await ask("203.0.113.1")).status_code == 200


def test_the_counted_address_follows_the_front_and_the_proxy_before_it():
    """Decisions: the front's peer is the peer; when that is a trusted proxy, its last untrusted hop."""
    token = front_token(b"secret")
    says = [(b"x-front-peer", token + b" 192.0.2.7"), (b"x-forwarded-for", b"198.51.100.1, 203.0.113.9")]
    client = AsgiClient(says, "127.0.0.1")
    assert counted_address(client, TrustedProxies([], token)) == "192.0.2.7"
    assert counted_address(client, TrustedProxies(["192.0.2.7"], token)) == "203.0.113.9"
    assert counted_address(client, TrustedProxies(["192.0.2.7"])) == "127.0.0.1"
    client.headers = says[:1]
    assert counted_address(client, TrustedProxies(["192.0.2.7"], token)) == UNKNOWN
