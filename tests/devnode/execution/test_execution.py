import pytest
from solders.account import Account
from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageAddressTableLookup, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.system_program import (
    AdvanceNonceAccountParams,
    advance_nonce_account,
)
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import (
    ADDRESS_LOOKUP_TABLE_PROGRAM,
    TOKEN_PROGRAM,
    USDC_MINT,
)
from devnode.execution.execution import Execution, Refused, load_keys, run
from devnode.records.blockhashes import stored_value
from tests.devnode.local_node import LocalNode, decoded, give, nonce_instructions

NEXT_NONCE = Hash.from_bytes(b"\x33" * 32)


def executed(local: LocalNode, transaction: VersionedTransaction) -> Execution:
    done = run(local.chain.vm, decoded(transaction), True, NEXT_NONCE)
    assert isinstance(done, Execution), done
    return done


def test_balances_before_and_after(local: LocalNode) -> None:
    payer, to = local.wallet(10**9), Pubkey.new_unique()
    done = executed(local, local.transfer(payer, to, 2_000_000))
    assert done.meta.pre_lamports == (10**9, 0, 1)
    assert done.meta.post_lamports == (10**9 - 2_005_000, 2_000_000, 1)
    assert {write.pubkey for write in done.writes} == {payer.pubkey(), to}
    created = next(write for write in done.writes if write.pubkey == to)
    assert created.before is None and created.after is not None and created.after.lamports == 2_000_000


def test_token_balances_and_inner_instructions(local: LocalNode) -> None:
    """A wallet's first USDC creates its associated account, which is only in the post balances."""
    wallet = Keypair()
    local.faucet.fund(wallet.pubkey(), 0, 5_000_000)
    record = list(local.chain.open_transactions())[-1]
    assert record.meta.pre_tokens == ()
    (balance,) = record.meta.post_tokens
    account = get_associated_token_address(wallet.pubkey(), USDC_MINT)
    assert record.keys[balance.account_index] == str(account)
    assert (balance.owner, balance.mint, balance.program) == (str(wallet.pubkey()), str(USDC_MINT), str(TOKEN_PROGRAM))
    assert (balance.amount, balance.decimals) == (5_000_000, 6)
    (inner,) = record.meta.inner
    assert inner.index == 1 and len(inner.instructions) == 4
    assert {call.stack_height for call in inner.instructions} == {2}


def test_a_failed_transaction_keeps_only_its_fee(local: LocalNode) -> None:
    payer = local.wallet(10**9)
    done = executed(local, local.transfer(payer, Pubkey.new_unique(), 10**12))
    assert done.meta.err == {"InstructionError": [0, {"Custom": 1}]}
    assert [write.pubkey for write in done.writes] == [payer.pubkey()]
    assert done.meta.post_lamports[0] == 10**9 - 5_000


def v1(payer: Keypair, to: Pubkey, lamports: int, priority_fee: int, blockhash: Hash) -> VersionedTransaction:
    config = TransactionConfig(
        priority_fee=priority_fee, compute_unit_limit=10_000, loaded_accounts_data_size_limit=1_000_000
    )
    message = MessageV1.try_compile(payer.pubkey(), [give(payer, to, lamports)], blockhash, config=config)
    return VersionedTransaction(message, [payer])


def test_v1_pays_its_inline_fee(local: LocalNode) -> None:
    """The inline fee is charged before the run, so a transaction cannot transfer the lamports it owes."""
    payer, to = local.wallet(10**9), Pubkey.new_unique()
    done = executed(local, v1(payer, to, 2_000_000, 777, local.blockhash()))
    assert done.meta.fee_lamports == 5_777
    assert done.meta.post_lamports[0] == 10**9 - 2_000_000 - 5_777
    left = done.meta.post_lamports[0]
    broke = executed(local, v1(payer, to, left - 5_000, 777, local.blockhash()))
    assert broke.meta.err is not None


def test_v1_that_cannot_pay_is_refused_without_a_charge(local: LocalNode) -> None:
    payer, to = local.wallet(10**9), Pubkey.new_unique()
    refused = run(local.chain.vm, decoded(v1(payer, to, 1, 10**9, local.blockhash())), True, NEXT_NONCE)
    assert refused == Refused("InsufficientFundsForFee")
    absent = run(local.chain.vm, decoded(v1(Keypair(), to, 1, 777, local.blockhash())), True, NEXT_NONCE)
    assert absent == Refused("AccountNotFound")
    unsigned = VersionedTransaction.populate(
        v1(payer, to, 1, 777, local.blockhash()).message, [Keypair().sign_message(b"x")]
    )
    assert isinstance(run(local.chain.vm, decoded(unsigned), True, NEXT_NONCE), Refused)
    account = local.chain.vm.account(payer.pubkey())
    assert account is not None and account.lamports == 10**9


def test_lookup_tables_are_resolved(local: LocalNode) -> None:
    """Static keys first, then loaded writable, then loaded readonly."""
    addresses = [Pubkey.from_bytes(bytes([number]) * 32) for number in range(1, 4)]
    table = Pubkey.new_unique()
    data = bytes(56) + b"".join(map(bytes, addresses))
    payer = Keypair()
    base = MessageV0.try_compile(payer.pubkey(), [give(payer, payer.pubkey(), 1)], [], Hash.default())
    lookup = MessageAddressTableLookup(table, bytes([2, 0]), bytes([1]))
    message = MessageV0(base.header, base.account_keys, Hash.default(), base.instructions, [lookup])
    transaction = decoded(VersionedTransaction(message, [payer]))
    holder = {table: Account(1, data, ADDRESS_LOOKUP_TABLE_PROGRAM, False, 0)}
    keys = load_keys(transaction, holder.get)
    assert keys.loaded_writable == (addresses[2], addresses[0]) and keys.loaded_readonly == (addresses[1],)
    assert keys.all == (*base.account_keys, addresses[2], addresses[0], addresses[1])
    assert keys.writable == (0, 2, 3)
    assert load_keys(transaction, lambda _: None).all == tuple(base.account_keys)


@pytest.fixture
def nonce(local: LocalNode) -> tuple[Keypair, Keypair]:
    """Owner and nonce account, created in an earlier slot."""
    owner, account = local.wallet(10**9), Keypair()
    message = MessageV0.try_compile(owner.pubkey(), nonce_instructions(owner, account), [], local.blockhash())
    record = local.land(VersionedTransaction(message, [owner, account]))
    assert record.meta.err is None
    local.beat()
    return owner, account


def advance(owner: Keypair, account: Keypair) -> Instruction:
    return advance_nonce_account(
        AdvanceNonceAccountParams(nonce_pubkey=account.pubkey(), authorized_pubkey=owner.pubkey())
    )


@pytest.mark.parametrize("lamports", [1_000_000, 10**12])
def test_a_durable_nonce_advances_even_when_the_transfer_fails(
    local: LocalNode, nonce: tuple[Keypair, Keypair], lamports: int
) -> None:
    """A nonce cannot be used twice, whether or not the transfer succeeds."""
    owner, account = nonce
    value = stored_value(local.chain.vm.account(account.pubkey()))
    assert value is not None
    spend = local.signed(owner, advance(owner, account), give(owner, Pubkey.new_unique(), lamports), blockhash=value)
    done = executed(local, spend)
    assert (done.meta.err is None) == (lamports == 1_000_000)
    assert stored_value(local.chain.vm.account(account.pubkey())) == NEXT_NONCE
    assert account.pubkey() in {write.pubkey for write in done.writes}


def test_the_price_is_that_of_the_fee(local: LocalNode) -> None:
    payer = local.wallet()
    priced = local.signed(payer, set_compute_unit_price(1_000_000), give(payer, payer.pubkey(), 1))
    assert executed(local, priced).budget.price_micro_lamports == 1_000_000


def test_unknown_programs_are_refused(local: LocalNode) -> None:
    payer = local.wallet()
    unknown = Instruction(Pubkey.new_unique(), b"", [AccountMeta(payer.pubkey(), True, True)])
    result = run(local.chain.vm, decoded(local.signed(payer, unknown)), True, NEXT_NONCE)
    assert isinstance(result, Refused)
