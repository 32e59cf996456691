"""What is inside an instruction, with and without depths."""

from msgspec.structs import replace

from actors.signals.families import orca, raydium_pools
from actors.signals.observations import WSOL
from actors.signals.transaction import Instruction, key_bytes, key_text
from tests.signals import samples
from tests.signals.made import TOKENS, key, numbered, transfer

SWAP = numbered(raydium_pools.CPMM, b"swap")
PAID = transfer(key(1), key(2), WSOL, 10)


def _inside(*instructions: Instruction, index: int = 0) -> list[Instruction]:
    return list(samples.of_instructions(instructions).inside(index))


def test_inside_ends_where_the_depth_falls_back() -> None:
    """A router's two swaps: the transfers of the second are not of the first."""
    router = numbered(key(70), b"")
    first, second = replace(SWAP, height=2), replace(SWAP, height=2)
    deep = replace(PAID, height=3)
    assert _inside(router, first, deep, second, deep, index=1) == [deep]
    assert _inside(router, first, deep, second, deep) == [first, deep, second, deep]


def test_inside_ends_with_the_outer_instruction() -> None:
    other = replace(PAID, outer=1)
    assert _inside(SWAP, PAID, other) == [PAID]


def test_without_depths_a_swap_has_the_transfers_that_follow_it() -> None:
    """Transactions of 2024 tell no depth of inner instructions."""
    router, flat = numbered(key(70), b""), replace(PAID, height=0)
    first, second = replace(SWAP, height=0), numbered(orca.PROGRAM, b"swap")
    assert _inside(router, first, flat, replace(second, height=0), flat, index=1) == [flat]


def test_transfers_of_all_forms_are_read() -> None:
    """Plain, checked, and with a fee of Token-2022; the plain one takes its mint from the balances."""
    amount = (10).to_bytes(8, "little")
    plain = Instruction(TOKENS, (key(1), key(2), key(3)), b"\x03" + amount, 0, 2)
    with_fee = Instruction(TOKENS, (key(1), WSOL, key(2)), b"\x1a\x01" + amount + bytes(9), 0, 2)
    short = Instruction(TOKENS, (key(1), key(2)), b"\x03" + amount[:7], 0, 2)
    other_fee = replace(with_fee, data=b"\x1a\x00" + amount)
    transaction = samples.of_instructions([SWAP, plain, PAID, with_fee, short, other_fee], token_mints={key(2): WSOL})
    found = [(one.source, one.destination, one.amount, one.mint) for one in transaction.transfers_inside(0)]
    assert found == [(key(1), key(2), 10, WSOL)] * 3


def test_texts_that_are_no_keys_are_none() -> None:
    assert key_bytes(key_text(key(5))) == key(5)
    assert key_bytes("0OIl") is None and key_bytes("") is None and key_bytes("1" * 99) is None
