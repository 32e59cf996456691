"""Calls to a node, and conclusions from its answers."""

from typing import Any

import base58
import orjson
import pytest

from actors.deposits.usdc.chain import ChainUnavailable, DepositChain, Known, Seen, UnknownPosition, signature_of
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.deposits.token_making import Shop
from tests.deposits.world import text_of

SIGNATURE = b"s" * 64


class Scripted:
    """Answers every call with one answer, and records the calls."""

    def __init__(self, answer: dict[str, Any] | NodeAnswer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        assert timeout_ms > 0
        self.asked.append((method, orjson.loads(params)))
        if isinstance(self.answer, NodeAnswer):
            return self.answer
        return replies.judge(orjson.dumps({"jsonrpc": "2.0", "id": 1} | self.answer))


async def test_pages_are_final_and_say_what_failed() -> None:
    """A fork may drop a transaction that is not final, so every call is at finalized commitment."""
    rows = [{"signature": text_of(SIGNATURE), "slot": 7, "blockTime": None, "err": {"x": 1}, "memo": None}]
    node = Scripted({"result": rows})
    assert await DepositChain(node).page("account", b"b" * 64, b"u" * 64) == [Seen(SIGNATURE, 7, None, True)]
    ((method, params),) = node.asked
    assert method == "getSignaturesForAddress"
    config = {"limit": 1000, "commitment": "finalized", "before": text_of(b"b" * 64), "until": text_of(b"u" * 64)}
    assert params == ["account", config]


async def test_a_position_that_the_node_does_not_know_is_told_apart() -> None:
    node = Scripted({"error": {"code": -32020, "message": "unknown"}})
    with pytest.raises(UnknownPosition):
        await DepositChain(node).page("account", None, SIGNATURE)


@pytest.mark.parametrize(
    "answer",
    [
        replies.UNREACHABLE,
        replies.TIMED_OUT,
        {"error": {"code": -32005, "message": "Node is unhealthy"}},
        {"result": "nonsense"},
        {"result": [{"slot": 1}]},
    ],
)
async def test_silence_and_nonsense_conclude_nothing(answer: Any) -> None:
    chain = DepositChain(Scripted(answer))
    for question in (
        chain.page("account", None, None),
        chain.transaction(SIGNATURE),
        chain.known(SIGNATURE),
        chain.slot(),
        chain.first_slot(),
    ):
        with pytest.raises(ChainUnavailable):
            await question


async def test_a_transaction_that_is_not_final_is_none() -> None:
    node = Scripted({"result": None})
    assert await DepositChain(node).transaction(SIGNATURE) is None
    ((_, (_, config)),) = node.asked
    assert config == {"encoding": "json", "maxSupportedTransactionVersion": 1, "commitment": "finalized"}


async def test_how_far_a_transaction_is_comes_from_its_status() -> None:
    status = {"slot": 1, "confirmations": 3, "err": None, "confirmationStatus": "confirmed"}
    assert await DepositChain(Scripted({"result": {"value": [status]}})).known(SIGNATURE) == Known("confirmed", False)
    assert await DepositChain(Scripted({"result": {"value": [None]}})).known(SIGNATURE) is None


class Here:
    """The chain inside the test as a node."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        del timeout_ms
        reply = self._shop.node.reply(method, *orjson.loads(params))
        return replies.judge(orjson.dumps(reply | {"id": 1}))


async def test_a_real_chain_is_understood(shop: Shop) -> None:
    chain = DepositChain(Here(shop))
    signatures = [signature_of(shop.run([shop.pay(amount)])) for amount in (10_000, 20_000, 30_000)]
    page = await chain.page(shop.account.address, None, signatures[0])
    assert [seen.signature for seen in page] == signatures[:0:-1]
    with pytest.raises(UnknownPosition):
        await chain.page(shop.account.address, None, SIGNATURE)
    found = await chain.transaction(signatures[1])
    assert found is not None and found["slot"] == page[1].slot <= await chain.slot()
    assert await chain.transaction(SIGNATURE) is None and await chain.known(SIGNATURE) is None
    pending = shop.signed([shop.pay(40_000)])
    shop.node.land(pending)
    shop.node.beat()
    raw = bytes(pending.signatures[0])
    assert await chain.transaction(raw) is None
    assert await chain.known(raw) in (Known("confirmed", False), Known("processed", False))
    assert await chain.first_slot() <= page[1].slot


NOT_SIGNATURES = ["", "x" * 64, "1" * 63, " " + text_of(SIGNATURE), text_of(b"s" * 63), "0" * 88, "l" * 64]


@pytest.mark.parametrize("text", NOT_SIGNATURES)
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        signature_of(text)
    assert signature_of(text_of(SIGNATURE)) == SIGNATURE == base58.b58decode(text_of(SIGNATURE))
