from solders.keypair import Keypair
from solders.pubkey import Pubkey

from devnode.chain import queue
from devnode.chain.chain import Dropped, Source, SubmitResult
from devnode.chain.queue import FeeQueue, Queued
from devnode.encoding.wire import Decoded, decode
from tests.devnode.local_node import LocalNode


def queued(decoded: Decoded, price: int, settled: list[SubmitResult] | None = None) -> Queued:
    results = [] if settled is None else settled
    return Queued(decoded, Source.RPC, price, 1_000, (), None, results.append)


def decoded(local: LocalNode, payer: Keypair, lamports: int) -> Decoded:
    found = decode(bytes(local.transfer(payer, Pubkey.default(), lamports)))
    assert isinstance(found, Decoded)
    return found


def test_the_highest_fee_is_first_and_then_the_earliest(local: LocalNode) -> None:
    payer, waiting = Keypair(), FeeQueue()
    entries = [queued(decoded(local, payer, number), price) for number, price in enumerate((5, 9, 5, 0, 9))]
    for entry in entries:
        assert waiting.add(entry) == []
    assert waiting.by_fee() == [entries[number] for number in (1, 4, 0, 2, 3)]
    waiting.remove(entries[1])
    assert len(waiting) == 4 and waiting.by_fee()[0] is entries[4]


def test_copies_wait_together(local: LocalNode) -> None:
    """Each learns of the one result."""
    first: list[SubmitResult] = []
    second: list[SubmitResult] = []
    waiting, one = FeeQueue(), decoded(local, Keypair(), 1)
    waiting.add(queued(one, 7, first))
    waiting.add(queued(one, 7, second))
    (entry,) = waiting.by_fee()
    entry.settle(Dropped())
    assert first == second == [Dropped()]


def test_the_lowest_fees_lose_their_places_when_too_many_wait(local: LocalNode) -> None:
    payer, waiting, lost = Keypair(), FeeQueue(), []
    for number in range(queue.QUEUED_MAX + 1):
        lost += waiting.add(queued(decoded(local, payer, number), number))
    assert len(waiting) == queue.QUEUED_MAX * 9 // 10
    assert len(lost) + len(waiting) == queue.QUEUED_MAX + 1
    assert max(one.price_micro_lamports for one in lost) < min(one.price_micro_lamports for one in waiting.by_fee())
