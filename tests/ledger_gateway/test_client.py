"""The client against the real door and the real owner of accounts, over real sockets."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.accounts.api import SetStatus
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from ledger_gateway import Denied, LimitReached, NodeError, PaymentNeeded, Wallet
from ledger_gateway.call_requests import Consistency, new_idempotency_key
from ledger_gateway.client import KEY_VARIABLE, URL_VARIABLE, Gateway
from ledger_gateway.errors import BadAnswer, BadRequest, NotFound, Unavailable
from tests.gateway.doubles import TRANSACTION
from tests.idempotency.memory_store import MemoryIdempotencyStore

from .world import a_gateway

ADDRESS = "So11111111111111111111111111111111111111112"


def answering(body: bytes) -> Callable[[str, bytes], NodeAnswer]:
    return lambda method, params: replies.judge(body)


README = Path(__file__).parents[2] / "ledger_gateway" / "README.md"


async def test_the_five_lines_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A user is productive in five lines: the example is run as printed, but for its URL and key."""
    code = re.search(
        r"<!-- example: five-lines -->\s*```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL
    )
    assert code is not None
    lines = code[1].strip().splitlines()
    assert len([line for line in lines if line.strip()]) <= 5
    async with a_gateway() as served:
        customer = await served.world.customer(10)
        text = code[1].replace("http://127.0.0.1:8080", served.url).replace("srpc_live_...", customer.api_key)
        scope: dict[str, object] = {}
        body = "\n".join(f"    {line}" for line in text.splitlines())
        exec(f"async def example():\n{body}", scope)
        await scope["example"]()  # type: ignore[operator]
        assert await served.world.debits(customer) == [("getSlot", 1)]
    assert capsys.readouterr().out.split()[-1] == "9"


async def test_a_call_with_each_credential() -> None:
    """A key, a wallet's signature for every request, a session, and none, which is told how to pay."""
    async with a_gateway() as served:
        wallet = await served.wallet(10)
        async with served.gateway(wallet) as gateway:
            for left in (9, 8):
                await gateway.call("getSlot")
                assert gateway.figures.credits_remaining == left and gateway.figures.request_id
            account = await gateway.account()
            assert (account.pubkey, account.balance, account.total_consumed_credits) == (wallet.pubkey, 8, 2)
            key = await gateway.new_api_key()
        async with served.gateway(key) as gateway, served.gateway() as stranger:
            assert [entry.method for entry in await gateway.history()] == ["getSlot", "getSlot"]
            assert [entry.type for entry in await gateway.ledger(limit=2)] == ["debit", "debit"]
            debits = [entry async for entry in gateway.ledger_entries(type="debit", from_="2023-01-01")]
            assert [(entry.method, entry.outcome, entry.number) for entry in debits] == [
                ("getSlot", "answered", 6),
                ("getSlot", "answered", 5),
            ]
            with pytest.raises(PaymentNeeded) as told:
                await stranger.call("getSlot")
            assert told.value.constant == "PAYMENT_REQUIRED" and served.world.config.payments.deposit_wallet
            assert served.world.config.payments.deposit_wallet in told.value.how_to_pay


async def test_a_wallet_opens_its_account_with_a_key() -> None:
    async with a_gateway() as served, served.gateway(Wallet.generate()) as gateway:
        with pytest.raises((PaymentNeeded, NotFound)):
            await gateway.account()
        assert (await gateway.new_api_key("some-code")).startswith("srpc_live_")
        assert (await gateway.account()).balance == 0
        with pytest.raises(PaymentNeeded) as told:
            await gateway.call("getSlot")
        assert told.value.constant == "INSUFFICIENT_CREDITS" and served.waits.seconds == []


async def test_refusals_and_the_nodes_errors_are_told_apart() -> None:
    """The gateway's -32601 and -32602 are free and typed; the node's error is its own, charged, and not repeated."""
    async with a_gateway() as served:
        customer = await served.world.customer(10)
        async with served.gateway(customer.api_key) as gateway:
            with pytest.raises(BadRequest) as unknown:
                await gateway.call("getNothing")
            with pytest.raises(BadRequest) as wrong:
                await gateway.call("getBalance", "not an address")
            assert (unknown.value.constant, wrong.value.constant) == ("METHOD_NOT_FOUND", "INVALID_PARAMS")
            error = b'{"code":-32005,"message":"Node is unhealthy","data":{"numSlotsBehind":42}}'
            served.world.node.answer = answering(b'{"jsonrpc":"2.0","error":%b,"id":1}' % error)
            with pytest.raises(NodeError) as node:
                await gateway.call("getSlot")
            assert (node.value.code, node.value.data) == (-32005, {"numSlotsBehind": 42})
        assert await served.world.debits(customer) == [("getSlot", 1)] and served.waits.seconds == []


async def test_limits_pass_and_are_waited_for() -> None:
    """RATE_LIMITED in a call and in items of a batch: sent again after the window, all charged once."""
    async with a_gateway(accounts={"requests_per_second": 2}) as served:
        customer = await served.world.customer(500)

        async def next_second() -> None:
            served.world.clock.advance(1)

        served.waits.then = next_second
        async with served.gateway(customer.api_key) as gateway:
            for _ in range(5):
                await gateway.call("getSlot")
            ends = await gateway.batch(
                [("getSlot",), ("getBalance", "bad"), ("getBlockHeight",), ("getSlot",), ("getSlot",)]
            )
            assert [end.error is None for end in ends] == [True, False, True, True, True]
        assert len(await served.world.debits(customer)) == 9 and min(served.waits.seconds) >= 1
        served.waits.then = None
        async with served.gateway(customer.api_key) as gateway:
            with pytest.raises(LimitReached) as limited:
                for _ in range(9):
                    await gateway.call("getSlot")
            assert limited.value.retry_after == 1.0 and len(served.waits.seconds) >= 3


async def test_long_batches_are_cut_and_sends_in_them_are_not_repeated() -> None:
    async with a_gateway(accounts={"requests_per_second": 1_000}) as served:
        customer = await served.world.customer(500)
        async with served.gateway(customer.api_key) as gateway:
            ends = await gateway.batch([("getSlot",)] * 150)
            assert len(ends) == 150 and all(end.result() is not None for end in ends)
            served.world.node.answer = lambda method, params: replies.UNREACHABLE
            asked = len(served.world.accounts.holds)
            (end,) = await gateway.batch([("sendTransaction", TRANSACTION, {"encoding": "base64"})])
            assert isinstance(end.error, Unavailable) and len(served.world.accounts.holds) == asked + 1
            assert await gateway.batch([]) == []


async def test_a_key_makes_a_send_repeatable() -> None:
    """Two answers are 502; the third attempt with the same key is charged once, and a fourth is its repeat."""
    async with a_gateway(idempotency=MemoryIdempotencyStore()) as served:
        customer, key = await served.world.customer(100), new_idempotency_key()

        async def recover() -> None:
            if len(served.waits.seconds) == 2:
                served.world.node.answer = answering(b'{"jsonrpc":"2.0","result":"sig","id":1}')

        served.world.node.answer, served.waits.then = (lambda method, params: replies.UNREACHABLE), recover
        async with served.gateway(customer.api_key) as gateway:
            for _ in range(2):
                sent = await gateway.call("sendTransaction", TRANSACTION, {"encoding": "base64"}, idempotency_key=key)
                assert sent == "sig"
            assert gateway.headers["idempotent-replayed"] == "true" and served.waits.seconds == [2.0, 4.0]
        assert await served.world.debits(customer) == [("sendTransaction", 2)]


async def test_other_pages() -> None:
    """Health while the service starts is a document, not an error; a path that is missing is NotFound; a suspended
    account is Denied; a bad id never becomes a path."""
    async with a_gateway() as served:
        customer = await served.world.customer(10)
        async with served.gateway(customer.api_key) as gateway:
            assert (await gateway.health())["status"] == "starting"
            assert (await gateway.page("/pricing"))["credits_per_usdc"] == 100_000
            with pytest.raises(NotFound):
                await gateway.page("/nothing")
            with pytest.raises(ValueError, match="id of a webhook"):
                await gateway.webhook_action("../account/api-key", "", {})
            await served.world.shard.ask(SetStatus(customer.pubkey, "suspended", "test"))
            with pytest.raises(Denied) as denied:
                await gateway.call("getSlot")
            assert denied.value.constant == "METHOD_NOT_ALLOWED"
        async with served.gateway("srpc_live_" + "A" * 43) as gateway:
            with pytest.raises(Denied):
                await gateway.account()


def test_the_environment_gives_url_and_key() -> None:
    gateway = Gateway.from_environment({URL_VARIABLE: "https://a.example/", KEY_VARIABLE: "k"})
    assert gateway.url == "https://a.example" and "k" not in repr(gateway)


async def test_consistency_is_an_option_of_a_call_and_of_the_client() -> None:
    """README: `consistency="monotonic"`. A call's own word wins over the constructor's."""
    async with a_gateway() as served:
        customer = await served.world.customer(100)

        async def wanted(gateway: Gateway, **options: Consistency) -> list[bool]:
            before = len(served.world.accounts.holds)
            await gateway.call("getSlot", **options)
            await gateway.batch([("getSlot",), ("getVersion",)], **options)
            return [request.reads_view for request in served.world.accounts.holds[before:]]

        async with served.gateway(customer.api_key) as gateway:
            assert not any(await wanted(gateway)) and not any(await wanted(gateway, consistency="any"))
            assert all(await wanted(gateway, consistency="monotonic"))
        async with Gateway(served.url, customer.api_key, consistency="monotonic") as gateway:
            assert all(await wanted(gateway))
            with contextlib.suppress(BadAnswer):  # No list is answered here.
                await gateway.bulk_balances([ADDRESS])
            assert served.world.accounts.holds[-1].reads_view
            assert not any(await wanted(gateway, consistency="any"))
