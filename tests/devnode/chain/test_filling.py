"""Blocks with limits, filled by fee."""

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.block_engine.auction import Failed, land
from devnode.block_engine.bundles import Bundle, bundle_of
from devnode.chain.filling import QUEUED_MAX, FeeQueue, Queued
from devnode.chain.open_block import BlockSpace, SpaceLimits
from devnode.chain.submissions import Dropped, Source, SubmitResult, Waiting
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.encoding.wire import Decoded, decode
from devnode.execution.execution import Refused
from devnode.records.records import TransactionRecord
from tests.devnode.leaders import LedNode
from tests.devnode.local_node import LocalNode, give


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
    for number in range(QUEUED_MAX + 1):
        lost += waiting.add(queued(decoded(local, payer, number), number))
    assert len(waiting) == QUEUED_MAX * 9 // 10
    assert len(lost) + len(waiting) == QUEUED_MAX + 1
    assert max(one.price_micro_lamports for one in lost) < min(one.price_micro_lamports for one in waiting.by_fee())


ASKED = 200_000


def limit(led: LedNode, units: int, account_units: int) -> None:
    """Give the block being built, and all later ones, these limits."""
    led.chain.limits = SpaceLimits(units, account_units)
    led.chain.space = led.chain._block.space = BlockSpace(led.chain.limits)


def payment(
    led: LedNode, payer: Keypair, price: int, to: Pubkey | None = None, asked: int = ASKED, lamports: int = 2_000_000
) -> VersionedTransaction:
    budget = (set_compute_unit_limit(asked), set_compute_unit_price(price))
    return led.signed(payer, *budget, give(payer, to or Pubkey.new_unique(), lamports))


def test_what_does_not_fit_waits_for_the_next_block(led: LedNode) -> None:
    payers = [led.wallet() for _ in range(2)]
    limit(led, ASKED + 3_000, ASKED + 3_000)
    first, second = (payment(led, payer, 0) for payer in payers)
    assert isinstance(led.take(first), TransactionRecord)
    assert led.take(second) == Waiting(), "what the first used is little, but the second asks for more than is left"
    assert led.arrivals()[1]["fate"] == "waiting"
    slot = led.slot
    led.beat(2)
    assert led.chain.statuses.get(second.signatures[0]).slot == slot + 1  # type: ignore[union-attr]
    assert led.arrivals()[1]["fate"] == "landed"


def test_the_highest_fee_per_unit_lands_first(led: LedNode) -> None:
    """A block is filled from all that wait; the fee counts by unit, whatever the whole fee is."""
    prices = [3, 50, 7, 900, 0]
    payers = [led.wallet() for _ in prices]
    limit(led, ASKED + 3_000, ASKED + 3_000)
    led.take(payment(led, led.wallet(), 0, asked=5 * ASKED))  # It never fits, and keeps the others waiting.
    waiting = {
        price: payment(led, payer, price * 1_000, asked=ASKED // 2 if price == 3 else ASKED)
        for payer, price in zip(payers, prices, strict=True)
    }
    for transaction in waiting.values():
        assert led.take(transaction) == Waiting()
    first = led.slot
    led.beat(8)
    landed = [one for slot in range(first, led.slot) for one in led.archive.block_transactions(slot)]
    in_order = [str(waiting[price].signatures[0]) for price in sorted(prices, reverse=True)]
    assert [one.signature for one in landed] == in_order
    assert len({one.slot for one in landed}) > 1


def test_an_account_has_a_limit_of_its_own(led: LedNode) -> None:
    """Transactions that write a crowded account wait, others pass them in the same block."""
    payers = [led.wallet() for _ in range(3)]
    crowded = Pubkey.new_unique()
    limit(led, 10 * ASKED, ASKED + 3_000)
    assert isinstance(led.take(payment(led, payers[0], 5, crowded)), TransactionRecord)
    second, other = payment(led, payers[1], 9, crowded), payment(led, payers[2], 0)
    assert led.take(second) == Waiting()
    assert led.take(other) == Waiting(), "while others wait, a transaction takes its turn by fee"
    led.beat()
    assert led.has_landed(other) and not led.has_landed(second)
    led.beat()
    assert led.has_landed(second)


def test_a_transaction_that_waits_too_long_expires(led: LedNode) -> None:
    payer = led.wallet()
    limit(led, ASKED, ASKED)
    never = payment(led, payer, 10**9, asked=2 * ASKED)
    assert led.take(never) == Waiting()
    last = led.call("getLatestBlockhash", {"commitment": "processed"})["value"]["lastValidBlockHeight"]
    led.beat(last - led.chain.levels.building.height)
    assert led.arrivals()[0]["fate"] == "waiting"
    led.beat(2)
    assert led.arrivals()[0]["fate"] == "expired" and not led.has_landed(never)


def test_what_cannot_land_does_not_wait(led: LedNode) -> None:
    payer = led.wallet()
    limit(led, ASKED, ASKED)
    assert led.take(payment(led, payer, 0, asked=2 * ASKED)) == Waiting()
    forged = payment(led, Keypair(), 0)
    forged = VersionedTransaction.populate(forged.message, [led.payment().signatures[0]])
    assert led.take(forged) == Refused("SignatureFailure")
    poor = payment(led, Keypair(), 0, asked=ASKED // 2)
    assert led.take(poor) == Waiting()
    led.beat()
    assert led.arrivals()[-1]["reason"] == "AccountNotFound"


def test_a_bundle_waits_for_a_block_with_room(led: LedNode) -> None:
    """All of it lands in one block, or none of it."""
    payer, other = led.wallet(), led.wallet()
    texts = [led.signed(payer, give(payer, TIP_ACCOUNTS[number], 1_000)) for number in range(2)]
    bundle = bundle_of([decode(bytes(one)) for one in texts])  # type: ignore[misc]
    assert isinstance(bundle, Bundle)
    limit(led, 4_500, 4_500)
    assert isinstance(led.take(payment(led, other, 0, asked=450)), TransactionRecord)
    result = land(led.chain, bundle)
    assert isinstance(result, Failed) and result.may_wait
    led.beat()
    assert isinstance(land(led.chain, bundle), tuple)


def test_a_lock_alone_counts(led: LedNode) -> None:
    """An account that a transaction locks for writing counts, written or not."""
    payer, locked = led.wallet(), Pubkey.new_unique()
    pay = give(payer, payer.pubkey(), 1)
    led.take(
        led.signed(payer, Instruction(pay.program_id, pay.data, [*pay.accounts, AccountMeta(locked, False, True)]))
    )
    assert led.chain.space.used == 150 + 720 + 2 * 300
    assert led.chain.space._by_account[str(locked)] == led.chain.space.used
    assert led.take(led.payment(), Source.TPU, port=led.leader) is not None
