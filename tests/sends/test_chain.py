"""What races learn from nodes, over a chain that executes: presence, statuses, and the proof of an expiry."""

import asyncio
import base64
import json

import orjson
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.pubkey import Pubkey

from actors.sends.chain import SendChain
from actors.sends.core import Present, Proof
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from devnode.chain.submissions import Source
from tests.sends.conftest import Here, signed


class Scripted:
    """A node that answers from a table; a method without a row is not answered."""

    def __init__(self, **results: object) -> None:
        self.results, self.asked = results, list[str]()

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        del params, timeout_ms
        self.asked.append(method)
        if method not in self.results:
            return replies.TIMED_OUT
        return replies.made(json.dumps(self.results[method]).encode())  # orjson refuses large integers.


async def test_where_the_chain_is_and_whether_it_knows_a_blockhash(here: Here) -> None:
    chain = SendChain(here)
    found = await chain.present(bytes(here.local.blockhash()))
    assert found is not None and found.knows
    assert found.slot == await chain.slot() and found.height <= found.slot
    unknown = await chain.present(bytes(Hash.new_unique()))
    assert unknown is not None and not unknown.knows


async def test_calls_with_one_blockhash_share_the_questions_under_way() -> None:
    """A burst of sends would otherwise ask the node twice each, before its first byte leaves."""
    node = Scripted(
        getEpochInfo={"absoluteSlot": 1_000, "blockHeight": 900},
        isBlockhashValid={"context": {"slot": 1_000}, "value": True},
    )
    chain = SendChain(node)
    found = await asyncio.gather(*(chain.present(b"h" * 32) for _ in range(9)), chain.present(b"i" * 32))
    assert set(found) == {Present(1_000, 900, True)} and len(node.asked) == 4
    await chain.present(b"h" * 32)
    assert len(node.asked) == 6


async def test_a_node_that_is_busy_for_a_moment_is_asked_again() -> None:
    """Nothing has been sent yet, and a refusal would cost the sender a slot. A dead node is not asked for ever."""
    node = Scripted(isBlockhashValid={"context": {"slot": 1_000}, "value": True})
    right, answers = node.call, iter([False, False, True])

    async def call(method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        if method == "getEpochInfo" and next(answers):
            node.results["getEpochInfo"] = {"absoluteSlot": 1_000, "blockHeight": 900}
        return await right(method, params, timeout_ms)

    node.call = call  # type: ignore[method-assign]
    assert await SendChain(node).present(b"h" * 32) == Present(1_000, 900, True)
    dead = Scripted()
    assert await SendChain(dead).present(b"h" * 32) is None and len(dead.asked) == 6


async def test_a_status_says_how_far_it_is(here: Here) -> None:
    """Landed, then confirmed, then final; one that failed has the chain's own error."""
    chain, payer = SendChain(here), here.local.wallet()
    good = signed(here.local.transfer(payer, Pubkey.new_unique(), 5_000_000))
    poor = signed(here.local.transfer(payer, Pubkey.new_unique(), 10**15))
    assert await chain.statuses([good.signature, poor.signature]) == [None, None]
    for transaction in (good, poor):
        here.local.chain.submit(transaction.raw, Source.RPC)
    here.local.beat()
    first, second = await chain.statuses([good.signature, poor.signature]) or [None, None]
    assert first is not None and first.error is None and not first.finalized
    assert second is not None and second.error is not None and "InstructionError" in second.error
    here.local.finalize()
    last = (await chain.statuses([good.signature], history=True) or [None])[0]
    assert last is not None and last.finalized and last.counts and last.slot == first.slot


async def test_an_unknown_signature_comes_with_a_proof(here: Here) -> None:
    chain = SendChain(here)
    seen, proofs = await chain.search(b"s" * 64, None)
    assert seen is None
    height = here.local.call("getBlockHeight", {"commitment": "finalized"})
    assert proofs == [Proof(height, here.local.call("getFirstAvailableBlock"))]


async def test_a_known_signature_is_no_proof(here: Here) -> None:
    chain, payment = SendChain(here), here.payment()
    here.local.chain.submit(payment.raw, Source.RPC)
    here.local.beat()
    seen, proofs = await chain.search(payment.signature, None)
    assert seen is not None and proofs == []


async def test_the_height_is_asked_before_the_signature_and_the_oldest_slot_after(here: Here) -> None:
    """In another order, a transaction that lands in between would look expired."""
    here.calls.clear()
    await SendChain(here).search(b"s" * 64, str(Pubkey.new_unique()))
    assert here.calls == ["getBlockHeight", "getAccountInfo", "getSignatureStatuses", "getFirstAvailableBlock"]


async def test_a_node_without_history_proves_nothing() -> None:
    node = Scripted(getBlockHeight=900, getFirstAvailableBlock=0)
    assert await SendChain(node).search(b"s" * 64, None) == (None, [])
    half = Scripted(getBlockHeight=900, getSignatureStatuses={"value": [None]})
    assert await SendChain(half).search(b"s" * 64, None) == (None, [])


async def test_each_node_is_asked_by_itself_and_one_that_knows_wins() -> None:
    row = {"slot": 7, "err": None, "confirmations": None, "confirmationStatus": "finalized"}
    ignorant = Scripted(getBlockHeight=900, getFirstAvailableBlock=3, getSignatureStatuses={"value": [None]})
    knowing = Scripted(getSignatureStatuses={"value": [row]})
    seen, proofs = await SendChain(ignorant, (ignorant, knowing)).search(b"s" * 64, None)
    assert seen is not None and seen.finalized and proofs == [Proof(900, 3)]


async def test_the_value_of_a_nonce_is_read(here: Here) -> None:
    data = base64.b64encode(bytes(40) + b"n" * 32 + bytes(8)).decode()
    node = Scripted(
        getBlockHeight=900,
        getFirstAvailableBlock=3,
        getSignatureStatuses={"value": [None]},
        getAccountInfo={"value": {"data": [data, "base64"]}},
    )
    assert await SendChain(node).search(b"s" * 64, "account") == (None, [Proof(900, 3, b"n" * 32)])
    node.results["getAccountInfo"] = {"value": None}
    assert await SendChain(node).search(b"s" * 64, "account") == (None, [Proof(900, 3, b"")])
    del node.results["getAccountInfo"]
    assert await SendChain(node).search(b"s" * 64, "account") == (None, [Proof(900, 3, None)])


async def test_answers_that_are_none_are_values() -> None:
    """No method raises, whatever the node says."""
    for node in (Scripted(), Scripted(getSlot="x", getEpochInfo=[], isBlockhashValid={}, getSignatureStatuses={})):
        chain = SendChain(node)
        assert await chain.slot() is None
        assert await chain.present(b"h" * 32) is None
        assert await chain.statuses([b"s" * 64]) is None


async def test_a_simulation_checks_the_signatures(here: Here) -> None:
    chain, payment = SendChain(here), here.payment()
    good = orjson.loads((await chain.simulate(payment.raw, "processed")).value())
    assert good["value"]["err"] is None
    raw = bytearray(payment.raw)
    raw[5] ^= 1
    bad = orjson.loads((await chain.simulate(bytes(raw), "processed")).value())
    assert bad["value"]["err"] is not None


async def test_slots_that_no_column_can_hold_are_no_slots() -> None:
    for slot in (True, -1, 1 << 63, 7.5):
        assert await SendChain(Scripted(getSlot=slot)).slot() is None


async def test_a_node_that_lags_does_not_shorten_the_life_of_a_blockhash() -> None:
    """One node told the height and another one, 100 slots ahead, knew the blockhash: it may be 100 blocks newer, and
    an expiry 100 blocks too early would call a send failed that can still land."""
    node = Scripted(
        getEpochInfo={"absoluteSlot": 1_000, "blockHeight": 900},
        isBlockhashValid={"context": {"slot": 1_100}, "value": True},
    )
    assert await SendChain(node).present(b"h" * 32) == Present(1_000, 1_000, True)
    node.results["isBlockhashValid"] = {"context": {"slot": 990}, "value": True}
    assert await SendChain(node).present(b"h" * 32) == Present(1_000, 900, True)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("value", "context", "slot", "err", "absoluteSlot", "blockHeight", "data", "confirmations")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_METHODS = ("getSlot", "getEpochInfo", "isBlockhashValid", "getSignatureStatuses", "getBlockHeight", "getAccountInfo")


@given(st.dictionaries(st.sampled_from((*_METHODS, "getFirstAvailableBlock")), _JSON))
async def test_whatever_a_node_answers_is_a_value(results: dict[str, object]) -> None:
    """A node that lies, or a proxy in its place, must stop no race: no method raises, and numbers fit the store."""
    chain = SendChain(Scripted(**results))
    slot, present = await chain.slot(), await chain.present(b"h" * 32)
    seen, proofs = await chain.search(b"s" * 64, "account")
    statuses = await chain.statuses([b"s" * 64])
    numbers = [slot or 0, *(proof.height for proof in proofs), *(proof.first_slot for proof in proofs)]
    numbers += [] if present is None else [present.slot, present.height]
    numbers += [one.slot for one in (seen, *(statuses or [])) if one is not None]
    assert all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)
