"""Which transactions count as tipping a block engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, TransferWithSeedParams, transfer, transfer_with_seed
from solders.transaction import VersionedTransaction

from actors.addresses import TIP_ACCOUNTS
from actors.sends.tips import TIP_LAMPORTS_MIN, lacking_tip

PAYER = Keypair.from_seed(bytes(31) + b"\x01")
TIP = Pubkey.from_string(TIP_ACCOUNTS[3])


def raw(*instructions: Instruction, tables: tuple[AddressLookupTableAccount, ...] = ()) -> bytes:
    message = MessageV0.try_compile(PAYER.pubkey(), list(instructions), list(tables), Hash.default())
    return bytes(VersionedTransaction(message, [PAYER]))


def pay(lamports: int, to: Pubkey = TIP) -> Instruction:
    return transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=to, lamports=lamports))


@given(st.lists(st.lists(st.integers(0, 1_500), max_size=3), min_size=1, max_size=5))
def test_tips_of_all_transactions_add_up(amounts: list[list[int]]) -> None:
    """A bundle pays its tip in any of its transactions, and in parts."""
    bundle = [raw(*(pay(lamports) for lamports in each)) for each in amounts]
    assert (lacking_tip(bundle, TIP_ACCOUNTS) == "") is (sum(map(sum, amounts)) >= TIP_LAMPORTS_MIN)


def test_a_transfer_with_a_seed_is_a_transfer() -> None:
    seeded = TransferWithSeedParams(
        from_pubkey=Pubkey.create_with_seed(PAYER.pubkey(), "s", Pubkey.default()),
        from_base=PAYER.pubkey(),
        from_seed="s",
        from_owner=Pubkey.default(),
        to_pubkey=TIP,
        lamports=TIP_LAMPORTS_MIN,
    )
    assert lacking_tip([raw(transfer_with_seed(seeded))], TIP_ACCOUNTS) == ""


def test_a_program_that_may_write_a_tip_account_may_tip() -> None:
    """What it does is known when it runs; the engine decides."""
    program = Pubkey.new_unique()
    handed = Instruction(program, b"", [AccountMeta(TIP, is_signer=False, is_writable=True)])
    shown = Instruction(program, b"", [AccountMeta(TIP, is_signer=False, is_writable=False)])
    assert lacking_tip([raw(handed)], TIP_ACCOUNTS) == ""
    assert "none of the tip accounts" in lacking_tip([raw(shown)], TIP_ACCOUNTS)


def test_a_tip_account_in_a_lookup_table_does_not_count() -> None:
    """The engine looks for tip accounts that the transaction itself locks."""
    table = AddressLookupTableAccount(Pubkey.new_unique(), [TIP])
    assert "lookup table" in lacking_tip([raw(pay(10**6), tables=(table,))], TIP_ACCOUNTS)


@pytest.mark.parametrize("lamports", [1, TIP_LAMPORTS_MIN - 1])
def test_too_small_a_tip_is_named(lamports: int) -> None:
    assert f"{lamports} lamports" in lacking_tip([raw(pay(lamports))], TIP_ACCOUNTS)


def test_only_accounts_of_this_engine_count() -> None:
    """Engines of other networks have other accounts; each tells its own."""
    other = Pubkey.new_unique()
    assert lacking_tip([raw(pay(10**6))], [str(other)])
    assert lacking_tip([raw(pay(10**6, other))], [str(other)]) == ""
