"""Guards the way to the pipeline: floods of refused calls are turned away here, and nobody else is (threat 50)."""

import ast
import json

import pytest

from actors.config import GatewayConfig
from actors.errors import Err
from tests.gateway.payment_doubles import Desk, header_v2
from tests.gateway.test_short_way import Client
from tests.gateway.test_wire import listening, post
from tests.gateway.world import Wallet, World, a_world, call, constant
from tests.tidy.sources import product

FEW = {"account_refusals_per_second": 5, "address_refusals_per_second": 5}
SLOW = {"requests_per_second": 5}  # Or the account's own limit would be the larger one.


def told_to_wait(response) -> None:
    """429 as the interface has it, with the reason where a client can find it."""
    assert response.status_code == 429
    assert constant(response) == Err.RATE_LIMITED.name
    assert response.headers["retry-after"] == "1"
    assert response.headers["x-ratelimit-remaining"] == "0"
    assert response.headers["ratelimit"] == '"account";r=0;t=1'
    assert "too many refused calls" in response.text


async def flood(world: World, count: int, wallet: Wallet | None, body) -> list:
    return [await world.rpc(wallet, body) for _ in range(count)]


@pytest.mark.threat(50)
async def test_an_account_hears_why_500_times_a_second_and_then_waits():
    """Threat 50: three times as many refused calls in one second as the setting (500; here 50) allows: so many are
    answered for what they are, the others with 429 and without a message to the account's owner; the next second begins
    anew."""
    assert GatewayConfig().account_refusals_per_second == GatewayConfig().address_refusals_per_second == 500
    async with a_world(gateway={"account_refusals_per_second": 50}, accounts=SLOW) as world:
        poor = await world.customer()
        responses = await flood(world, 150, poor, call())
        assert [response.status_code for response in responses] == [402] * 50 + [429] * 100
        assert len(world.accounts.holds) == 50
        told_to_wait(responses[-1])
        assert responses[-1].headers["x-credits-remaining"] == "0"
        assert responses[-1].headers["x-ratelimit-limit"] == "5"
        world.clock.advance(1)
        assert (await world.rpc(poor, call())).status_code == 402


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (call("noSuchMethod"), 200),
        (call("getBalance", 7), 200),
        (call("requestAirdrop"), 403),
        (b"{", 400),
        ([call("noSuchMethod")], 200),
        ([call("getSlot")], 200),  # Refused for lack of credits.
    ],
)
@pytest.mark.threat(50)
async def test_whatever_is_refused_for_free_counts(body, status):
    """Threat 50: no kind of refused call is unlimited."""
    async with a_world(gateway=FEW, accounts=SLOW) as world:
        poor = await world.customer()
        responses = await flood(world, 8, poor, body)
        assert [response.status_code for response in responses] == [status] * 5 + [429] * 3
        assert len(world.accounts.holds) == 5


@pytest.mark.threat(50)
async def test_a_wait_is_told_in_json_rpc_to_a_call():
    """Interface: -32005, the message as the interface fixes it, under the call's own id; a batch is refused whole."""
    async with a_world(gateway=FEW, accounts=SLOW) as world:
        poor = await world.customer()
        await flood(world, 5, poor, call())
        single, batch = await world.rpc(poor, call(id="mine")), await world.rpc(poor, [call()])
        error = single.json()["error"]
        assert (single.json()["id"], error["code"], error["message"]) == ("mine", -32005, "rate limit exceeded")
        assert error["data"]["retry_after_secs"] == 1
        told_to_wait(batch)
        assert batch.json()["error"]["code"] == "RATE_LIMITED"


@pytest.mark.threat(50)
async def test_admitted_calls_are_never_counted():
    """A customer may make as many calls as its rate allows, however often the node fails on them."""
    async with a_world(gateway=FEW) as world:
        customer = await world.customer(200)
        assert {response.status_code for response in await flood(world, 100, customer, call())} == {200}
        assert await world.balance(customer) == 100


@pytest.mark.parametrize("kind", ["nothing", "bad key", "unknown key", "bad signature", "no account", "replay"])
@pytest.mark.threat(50)
async def test_strangers_wait_by_their_address(kind):
    """Threat 50: calls that prove nothing count for the address they come from, whatever they come with, and
    then reach no owner; other addresses and known customers of this one go on."""
    settings = {"gateway": FEW, "accounts": SLOW, "identity": {"trusted_proxies": ("127.0.0.1",)}}
    async with a_world(**settings) as world:
        customer, stranger = await world.customer(100), await world.customer(account=False)
        assert (await world.rpc(customer, call())).status_code == 200
        body = json.dumps(call()).encode()
        replayed = customer.headers("POST", "/", body)

        def credentials(number: int) -> dict[str, str]:
            match kind:
                case "nothing":
                    return {}
                case "bad key":
                    return {"x-api-key": "srpc_live_no"}
                case "unknown key":
                    return {"x-api-key": f"{number:064x}"}
                case "bad signature":
                    return stranger.headers("POST", "/", body) | {"x-signature": "1" * 88}
                case "no account":
                    return stranger.headers("POST", "/", body)
            return replayed

        async def ask(number: int, address: str = "203.0.113.1"):
            headers = credentials(number) | {"x-forwarded-for": address}
            return await world.http.post("/", content=body, headers=headers)

        first = await ask(0)
        assert first.status_code == {"nothing": 402, "no account": 402, "replay": 200}.get(kind, 401)
        statuses = [(await ask(number)).status_code for number in range(1, 12)]
        assert statuses.count(429) == (6 if kind == "replay" else 7)
        asked = len(world.accounts.holds)
        waiting = await ask(12)
        told_to_wait(waiting)
        assert len(world.accounts.holds) == asked
        assert "x-credits-remaining" not in waiting.headers
        assert (await ask(13, "203.0.113.2")).status_code in ({429} if kind == "no account" else {401, 402, 403})
        neighbour = await world.rpc(customer, call(), **{"x-forwarded-for": "203.0.113.1"})
        assert neighbour.status_code == 200


@pytest.mark.threat(63)
async def test_each_call_of_a_strangers_batch_counts():
    """Threat 63: a batch that is refused by one word was read call by call, so it is worth as many refused calls."""
    async with a_world(gateway={"address_refusals_per_second": 200}) as world:
        batch = json.dumps([call()] * 100).encode()
        answers = [await world.http.post("/", content=batch, headers={"x-api-key": f"{n:064x}"}) for n in range(4)]
        assert [answer.status_code for answer in answers] == [401, 401, 429, 429]
        assert len(world.accounts.holds) == 2


async def test_a_payment_is_never_answered_with_a_wait():
    """Money has moved by then, so the call that it came for is made, however often its client was refused before."""
    desk = Desk()
    async with a_world(desk=desk, gateway=FEW) as world:
        desk.world, desk.payer = world, await world.customer(account=False)
        assert [response.status_code for response in await flood(world, 6, None, call())] == [402] * 5 + [429]
        paid = await world.rpc(None, call(), **{"PAYMENT-SIGNATURE": header_v2()})
        assert (paid.status_code, paid.headers["x-credits-remaining"]) == (200, "9999")
        body = json.dumps(call()).encode()
        signed = await world.http.post("/", content=body, headers=desk.payer.headers("POST", "/", body))
        assert signed.status_code == 200, "the payer has an account by now, and its wallet is known to be good"


@pytest.mark.threat(50)
async def test_a_payment_header_is_no_way_around_the_limit():
    """No payment is taken for a call that is refused for free, so such a call counts for its address."""
    desk = Desk()
    async with a_world(desk=desk, gateway=FEW) as world:
        headers = {"PAYMENT-SIGNATURE": header_v2()}
        for body in (call("noSuchMethod"), b"{"):
            responses = [await world.rpc(None, body, **headers) for _ in range(6)]
            assert responses[0].status_code in (200, 400)
            told_to_wait(responses[-1])
            world.clock.advance(1)
        assert desk.paid == []


@pytest.mark.threat(50)
async def test_the_short_way_counts_as_well():
    """On real sockets: the address is the peer's, and an account that waits reaches no owner."""
    async with a_world(gateway=FEW, accounts=SLOW) as world, listening(world.door, swift=True) as port:
        poor, rich = await world.customer(), await world.customer(100)
        client = await Client.connect(port)
        body = json.dumps(call()).encode()
        stranger = b"POST / HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        for request, status in ((post(poor.api_key, body), 402), (stranger, 402)):
            client.send(*[request] * 8)
            assert [answered[0] for answered in await client.read(8)] == [status] * 5 + [429] * 3
        client.send(post(rich.api_key, body))
        assert (await client.read(1))[0][0] == 429, "a key that was never seen waits with its address"
        world.clock.advance(1)
        client.send(post(rich.api_key, body))
        assert (await client.read(1))[0][0] == 200
        client.writer.close()


@pytest.mark.threat(50)
async def test_bulk_requests_count_as_well():
    """The same limits, plain errors."""
    async with a_world(gateway=FEW, accounts=SLOW) as world:
        poor = await world.customer()
        path, body = "/bulk/getBalances", {"addresses": [poor.text]}
        responses = [await world.rpc(poor, body, path) for _ in range(6)]
        assert [response.status_code for response in responses] == [402] * 5 + [429]
        told_to_wait(responses[-1])
        world.clock.advance(1)
        assert [(await world.rpc(None, body, path)).status_code for _ in range(6)] == [402] * 5 + [429]


def test_every_door_authenticates_in_one_place():
    """Whoever else read credentials or settled payments would have rules of its own for who is who."""
    callers = {
        source.path
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("prove", "verify_wallet")
    }
    assert callers == {"actors/gateway/payments/authentication.py", "actors/identity/credentials.py"}
