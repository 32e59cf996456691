"""Each fault of a call and of a send, over real sockets."""

import asyncio
import itertools
import time
from typing import Any

import httpx
import orjson
import pytest
import websockets
from solders.pubkey import Pubkey

from devnode.rpc.faulty_answers import garbage
from tests.devnode.faulty import Faulty
from tests.devnode.local_node import text


def test_calls_are_refused_with_429(node: Faulty) -> None:
    """The fault is by method, with a retry-after header; the same seed refuses the same calls."""
    node.set(calls={"getSlot": {"too_many_share": 1, "retry_after_seconds": 2}})
    reply = node.post("getSlot")
    assert reply.status_code == 429 and reply.headers["retry-after"] == "2"
    assert reply.json()["error"]["code"] == 429 and reply.json()["id"] == 5
    assert node.post("getBlockHeight").status_code == 200
    share = {"getSlot": {"too_many_share": 0.5}}
    node.set(calls=share, seed=3)
    first = [node.post("getSlot").status_code for _ in range(30)]
    node.set(calls=share, seed=3)
    assert [node.post("getSlot").status_code for _ in range(30)] == first
    assert set(first) == {200, 429}
    node.clear()
    assert node.post("getSlot").status_code == 200


def test_a_hanging_call_is_answered_late_or_never(node: Faulty) -> None:
    node.set(calls={"getSlot": {"hang_share": 1, "hang_ms": 150}})
    began = time.monotonic()
    assert node.post("getSlot").status_code == 200
    assert time.monotonic() - began >= 0.15
    node.set(calls={"getSlot": {"hang_ms": None}})
    with pytest.raises(httpx.ReadTimeout):
        node.post("getSlot", timeout=0.2)
    assert node.post("getHealth").json()["result"] == "ok"


def test_a_call_that_hangs_for_ever_is_not_executed(node: Faulty) -> None:
    payer, to = node.wallet(), Pubkey.new_unique()
    payment = node.payment(payer, to, 2_000_000)
    node.set(calls={"sendTransaction": {"hang_share": 1}})
    with pytest.raises(httpx.ReadTimeout):
        node.post("sendTransaction", *sent(payment), timeout=0.1)
    assert node.balance(to) == 0


def test_a_call_is_executed_though_its_answer_breaks_off(node: Faulty) -> None:
    """The transaction is on the chain, and the sender does not know."""
    payer, to = node.wallet(), Pubkey.new_unique()
    payment = node.payment(payer, to, 2_000_000)
    node.set(calls={"sendTransaction": {"lost_share": 1}})
    with pytest.raises(httpx.RemoteProtocolError):
        node.post("sendTransaction", *sent(payment))
    assert node.balance(to) == 2_000_000


def test_garbage_is_not_json(node: Faulty) -> None:
    """The status is 200, as from a broken proxy; a batch has the fate of its first faulty call."""
    node.set(calls={"*": {"garbage_share": 1}})
    for method in ("getSlot", "getBlockHeight", "getVersion", "getGenesisHash"):
        reply = node.post(method)
        assert reply.status_code == 200
        assert_no_json(reply.content)
    batch = [{"jsonrpc": "2.0", "id": number, "method": "getSlot"} for number in range(3)]
    assert_no_json(httpx.post(node.url, json=batch).content)
    node.clear()
    assert len(httpx.post(node.url, json=batch).json()) == 3


@pytest.mark.parametrize("number", range(40))
def test_every_shape_of_garbage_is_garbage(number: int) -> None:
    assert_no_json(garbage(orjson.dumps({"jsonrpc": "2.0", "result": number, "id": 1})))


def assert_no_json(body: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(body)


def sent(transaction: Any) -> tuple[str, dict[str, str]]:
    return text(transaction), {"encoding": "base64", "preflightCommitment": "processed"}


def test_a_dropped_send_is_answered_and_never_lands(node: Faulty) -> None:
    payer, to = node.wallet(), Pubkey.new_unique()
    node.set(sends={"rpc": {"drop_share": 1}})
    payment = node.payment(payer, to, 2_000_000)
    signature = node.send(payment)
    assert signature == str(payment.signatures[0])
    node.wait_for_slot(node.slot() + 3)
    assert node.status(signature) is None and node.balance(to) == 0
    node.clear()
    assert node.send(payment) == signature
    assert node.balance(to) == 2_000_000


def test_a_lost_fork_takes_a_processed_transaction_back(node: Faulty) -> None:
    """The transaction is processed, then unknown and undone; it can land again, as its hash is older than the fork."""
    payer, to = node.wallet(), Pubkey.new_unique()
    node.wait_for_slot(node.slot(), "confirmed")
    payment = node.payment(payer, to, 2_000_000)
    node.set(slots={"frozen": True})
    signature = node.send(payment)
    status = node.status(signature)
    assert status is not None and status["confirmationStatus"] == "processed"
    slot = node.once(fork_blocks=1)
    assert status["slot"] == slot
    node.clear()
    node.wait_for_slot(slot + 3, "confirmed")
    assert node.status(signature) is None and node.balance(to) == 0
    assert node.error("getBlock", slot, {"commitment": "confirmed"}) == -32007
    node.send(payment)
    node.wait_for_slot(node.slot() + 2, "confirmed")
    status = node.status(signature)
    assert status is not None and status["slot"] > slot and status["err"] is None
    assert node.balance(to) == 2_000_000


def test_blockhashes_can_be_expired_at_once(node: Faulty) -> None:
    payer = node.wallet()
    payment = node.payment(payer, Pubkey.new_unique(), 2_000_000)
    node.wait_for_slot(node.slot() + 2)
    node.once(expire_blockhashes=True)
    reply = node.post("sendTransaction", *sent(payment)).json()
    assert reply["error"]["code"] == -32002 and reply["error"]["data"]["err"] == "BlockhashNotFound"


async def test_a_silent_stream_stays_open_and_a_jump_leaves_slots_out(node: Faulty) -> None:
    """A silent WebSocket receives nothing; afterwards slots continue with a gap, and lost slots make another gap."""
    async with websockets.connect(node.process.facts["ws_url"]) as socket:
        await socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}')
        await socket.recv()

        async def next_slot() -> int:
            slot: int = orjson.loads(await asyncio.wait_for(socket.recv(), 5))["params"]["result"]["slot"]
            return slot

        last = await next_slot()
        node.set(streams={"pubsub": {"silent": True}})
        with pytest.raises(TimeoutError):
            while True:  # Notifications sent before may still arrive.
                last = orjson.loads(await asyncio.wait_for(socket.recv(), 0.3))["params"]["result"]["slot"]
        node.clear()
        slots = [await next_slot()]
        assert slots[0] > last + 5
        node.once(lost_slots={"pubsub": 10})
        slots += [await next_slot() for _ in range(20)]
        gaps = [second - first for first, second in itertools.pairwise(slots) if second - first > 1]
        assert gaps and max(gaps) >= 10
