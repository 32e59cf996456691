"""What is read of a block, and the levels over what its transactions paid."""

import base64
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.fees import landed
from actors.fees.core import ESTIMATE_LEVELS
from actors.fees.landed import BlockFees, LevelsOfAll, PaidPrice, UnreadableBlock

PAYER = Keypair()
HOT, QUIET = bytes(Pubkey.new_unique()), bytes(Pubkey.new_unique())
VOTE = Pubkey.from_string("Vote111111111111111111111111111111111111111")


def signed(*instructions: Instruction, tables: tuple[AddressLookupTableAccount, ...] = ()) -> bytes:
    message = MessageV0.try_compile(PAYER.pubkey(), list(instructions), list(tables), Hash.default())
    return bytes(VersionedTransaction(message, [PAYER]))


def entry(raw: bytes, writable: tuple[str, ...] = (), order: int = 0, logs: tuple[str, ...] = ()) -> dict[str, Any]:
    """One transaction as nodes write it. order: some nodes sort the members of an object, others do not."""
    loaded = {"readonly": [str(Pubkey.new_unique())], "writable": list(writable)}
    meta = {"err": None, "loadedAddresses": loaded, "logMessages": list(logs)}
    members = [("meta", meta), ("transaction", [base64.b64encode(raw).decode(), "base64"]), ("version", 0)]
    return dict(members[order:] + members[:order])


def block(*entries: dict[str, Any]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "result": {"blockHeight": 1, "transactions": entries}, "id": 1})


def read(body: bytes) -> list[PaidPrice | None]:
    return [landed.paid_by(*pieces) for pieces in landed.transactions_of(body)]


@pytest.mark.parametrize(
    ("fee", "units", "price"),
    [(300, 200_000, 1_500), (1, 3, 333_333), (0, 5, 0), (None, 5, 0), (5, None, 0), (2**64 - 1, 1, 2**64 - 1)],
)
def test_the_price_of_a_transaction_of_version_1_is_its_fee_by_its_units(fee, units, price):
    """In micro-lamports, rounded down, and never more than a price can be. Without units there is no price."""
    limits = {
        name: value for name, value in (("priority_fee", fee), ("compute_unit_limit", units)) if value is not None
    }
    message = MessageV1.try_compile(PAYER.pubkey(), [], Hash.default(), TransactionConfig(**limits))
    raw = bytes(VersionedTransaction(message, [PAYER]))
    assert read(block(entry(raw))) == [PaidPrice(price, [bytes(PAYER.pubkey())])]


def test_a_transaction_shows_its_price_and_all_accounts_that_it_locks():
    """Those of lookup tables are loaded by the node, in whatever order it writes the members."""
    written, loaded = Pubkey.new_unique(), Pubkey.new_unique()
    raw = signed(
        set_compute_unit_price(7_000),
        Instruction(Pubkey.new_unique(), b"", [AccountMeta(written, False, True), AccountMeta(VOTE, False, False)]),
    )
    bodies = [block(entry(raw, (str(loaded),), order), entry(signed(), (), order)) for order in (0, 1, 2)]
    first = PaidPrice(7_000, [bytes(PAYER.pubkey()), bytes(written), bytes(loaded)])
    for body in bodies:
        assert read(body) == [first, PaidPrice(0, [bytes(PAYER.pubkey())])]


def test_a_vote_pays_no_price_and_is_left_out():
    """A transaction that does more than vote counts."""
    vote, price = Instruction(VOTE, b"", []), set_compute_unit_price(1)
    assert read(block(entry(signed(vote)), entry(signed(price, vote)))) == [None, PaidPrice(1, [bytes(PAYER.pubkey())])]


def test_the_words_of_a_program_are_no_transaction():
    """A log may hold the very marks that are looked for; inside a text each quote has a backslash."""
    marks = ('"transaction":["AAAA","base64"]', '"loadedAddresses":{"writable":["x"]}', '\\"transaction\\":["')
    assert read(block(entry(signed(), logs=marks))) == [PaidPrice(0, [bytes(PAYER.pubkey())])]


@pytest.mark.parametrize(
    "body",
    [
        block(entry(b"no transaction")),
        block(entry(signed(), ("no key",))),
        block({"transaction": ["AAAA", "base64"], "meta": None}),
        block(entry(signed()), {"meta": {"loadedAddresses": {"readonly": [], "writable": []}}}),
        block(entry(signed()) | {"transaction": ["=" * 8, "base64"]}),
        block(entry(bytes(6_000))),
        block(entry(signed()))[:-60],
    ],
)
def test_a_block_that_is_not_as_nodes_write_it_is_unreadable(body):
    """No fee is taken from half a block."""
    with pytest.raises(UnreadableBlock):
        read(body)


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_are_a_block_or_unreadable(noise, at):
    """A node may send anything; nothing else is raised."""
    body = block(entry(signed()))
    try:
        read(body[:at] + noise + body[at:])
    except UnreadableBlock:
        pass


def of(slot: int, *paid: tuple[int, bytes]) -> BlockFees:
    made = BlockFees(slot)
    for price, key in paid:
        made.add(PaidPrice(price, [key]))
    made.put_in_order()
    return made


def test_a_level_is_the_price_that_so_many_transactions_paid_at_most():
    """By nearest rank, so each is a price that was paid."""
    blocks = [
        of(1, *((price, HOT) for price in range(100, 0, -2))),
        of(2, *((price, HOT) for price in range(1, 100, 2))),
    ]
    wanted = {"min": 1, "low": 25, "medium": 50, "high": 75, "veryHigh": 95, "unsafeMax": 100}
    assert LevelsOfAll().levels(blocks, ESTIMATE_LEVELS, False) == wanted
    assert landed.levels_of_account(blocks, HOT, ESTIMATE_LEVELS, False) == (100, wanted)


def test_two_transactions_do_not_say_what_a_lock_costs():
    """Three do."""
    blocks = [of(1, (5, HOT), (6, HOT), (7, QUIET))]
    assert landed.levels_of_account(blocks, HOT, ESTIMATE_LEVELS, False) == (2, {})
    count, levels = landed.levels_of_account([*blocks, of(2, (1, HOT))], HOT, ESTIMATE_LEVELS, False)
    assert (count, levels["medium"]) == (3, 5)


def test_a_block_without_such_a_transaction_can_count_as_one_that_paid_nothing():
    """evaluateEmptySlotAsZero."""
    blocks = [of(1, (5, HOT), (6, HOT), (7, HOT)), of(2, (9, QUIET)), of(3, (9, QUIET)), of(4)]
    assert landed.levels_of_account(blocks, HOT, {"medium": 50}, True) == (3, {"medium": 0})
    assert landed.levels_of_account(blocks, HOT, {"medium": 50}, False) == (3, {"medium": 6})
    assert LevelsOfAll().levels(blocks, {"min": 0, "medium": 50}, True) == {"min": 0, "medium": 7 - 1}


def test_the_prices_of_all_are_those_of_the_blocks_at_hand():
    """They are joined once for each set of blocks; another set shows its own."""
    of_all, one, other = LevelsOfAll(), of(1, (5, HOT)), of(2, (7, HOT))
    for blocks, wanted in (([one], 5), ([one], 5), ([one, other], 7), ([other], 7), ([one], 5)):
        assert of_all.levels(blocks, {"unsafeMax": 100}, False) == {"unsafeMax": wanted}


def test_the_window_ends_at_the_newest_block():
    """lookbackSlots counts slots, not blocks."""
    blocks = [of(100), of(149), of(150)]
    assert [block.slot for block in landed.within(blocks, 2)] == [149, 150]
    assert [block.slot for block in landed.within(blocks, 50)] == [149, 150]
    assert len(landed.within(blocks, 51)) == 3
    assert landed.within([], 150) == []


def test_the_dearest_of_its_locks_decides():
    """A transaction needs all of them, and room in the block."""
    assert landed.highest([{"low": 1, "high": 9}, {}, {"low": 3, "high": 4}]) == {"low": 3, "high": 9}
