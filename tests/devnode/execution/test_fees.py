from typing import Any

import pytest
from solders.account import Account
from solders.compute_budget import (
    request_heap_frame,
    set_compute_unit_limit,
    set_compute_unit_price,
    set_loaded_accounts_data_size_limit,
)
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import RENT_EPOCH_EXEMPT, UPGRADEABLE_LOADER
from devnode.encoding.wire import Decoded, decode
from devnode.execution.execution import Execution, Refused, run
from devnode.execution.fees import (
    HEAP_BYTES,
    LOADED_DATA_BYTES_MAX,
    ComputeBudget,
    compute_budget,
    for_vm,
    loaded_data_bytes,
)
from tests.devnode.encoding.test_wire import GIVE, MEMO, PAYER, memo, v0
from tests.devnode.local_node import LocalNode, decoded, give


def budget_of(*instructions: Instruction) -> ComputeBudget:
    message = MessageV0.try_compile(PAYER.pubkey(), list(instructions), [], Hash.default())
    return compute_budget(decoded(VersionedTransaction(message, [PAYER])))


def test_without_a_price_only_signatures_cost() -> None:
    assert budget_of(GIVE) == ComputeBudget(5_000, 0, 3_000)


def test_the_priority_fee_is_price_times_limit_rounded_up() -> None:
    budget = budget_of(set_compute_unit_limit(1_001), set_compute_unit_price(1_500), GIVE)
    assert budget.priority_fee_lamports == 2  # 1,501,500 micro-lamports.
    assert budget.fee_lamports == 5_002
    assert budget.price_micro_lamports == 2 * 10**6 // 1_001  # Above the price that was asked for.


def test_the_limit_is_capped_and_may_be_zero() -> None:
    assert budget_of(set_compute_unit_limit(2_000_000), GIVE).compute_unit_limit == 1_400_000
    none = budget_of(set_compute_unit_limit(0), set_compute_unit_price(9), GIVE)
    assert (none.priority_fee_lamports, none.price_micro_lamports) == (0, 0)


def test_precompile_signatures_are_paid_for() -> None:
    ed25519 = Pubkey.from_string("Ed25519SigVerify111111111111111111111111111")
    assert budget_of(Instruction(ed25519, b"\x02\x00", []), GIVE).signature_fee_lamports == 15_000


def test_v1_names_its_fee_in_whole_lamports() -> None:
    """A missing limit of v1 is zero, and its compute budget instructions have no effect."""
    config = TransactionConfig(priority_fee=777, compute_unit_limit=1_000)
    instructions = [set_compute_unit_price(10**9), set_loaded_accounts_data_size_limit(9), GIVE]
    message = MessageV1.try_compile(PAYER.pubkey(), instructions, Hash.default(), config=config)
    budget = compute_budget(decoded(VersionedTransaction(message, [PAYER])))
    assert budget == ComputeBudget(5_000, 777, 1_000, HEAP_BYTES, 0)


def test_heap_and_loaded_data_limits_are_set_by_instruction() -> None:
    """Legacy and v0 set limits by instruction; a data limit above the maximum becomes the maximum."""
    budget = budget_of(request_heap_frame(65_536), set_loaded_accounts_data_size_limit(9_000), GIVE)
    assert (budget.heap_bytes, budget.loaded_data_bytes_max) == (65_536, 9_000)
    assert budget_of(set_loaded_accounts_data_size_limit(2**32 - 1)).loaded_data_bytes_max == LOADED_DATA_BYTES_MAX


NEXT_NONCE = Hash.from_bytes(b"\x33" * 32)
ROOMY = {"compute_unit_limit": 50_000, "loaded_accounts_data_size_limit": 1_000_000}


def compiled(*instructions: Instruction, **config: Any) -> Decoded:
    config = TransactionConfig(**(ROOMY | config))
    message = MessageV1.try_compile(PAYER.pubkey(), list(instructions), Hash.default(), config=config)
    return decoded(VersionedTransaction(message, [PAYER]))


@pytest.fixture
def rich(local: LocalNode) -> LocalNode:
    local.faucet.airdrop(PAYER.pubkey(), 10**9)
    return local


def done(local: LocalNode, decoded: Decoded) -> Execution:
    result = run(local.chain.vm, decoded, True, NEXT_NONCE)
    assert isinstance(result, Execution), result
    return result


def test_a_v1_transaction_gets_the_units_it_names(rich: LocalNode) -> None:
    """The limit in the header holds: enough units, one too few, none. A following v0 transaction has its default."""
    needed = done(rich, compiled(memo(5))).meta.compute_units
    exact = done(rich, compiled(memo(6), compute_unit_limit=needed + 1_000))
    assert exact.meta.err is None
    assert any(f"of {needed + 1_000} compute units" in line for line in exact.meta.logs)
    short = done(rich, compiled(memo(5), compute_unit_limit=needed - 1))
    assert short.meta.err == {"InstructionError": [0, "ProgramFailedToComplete"]}
    assert short.meta.fee_lamports == 5_000
    none = done(rich, compiled(memo(7), compute_unit_limit=None))
    assert none.meta.err is not None
    usual = decode(bytes(v0(memo(5))))
    assert isinstance(usual, Decoded)
    assert any("of 200000 compute units" in line for line in done(rich, usual).meta.logs)


def test_a_transaction_that_loads_too_much_pays_and_does_not_run(rich: LocalNode) -> None:
    """v1 without a data limit has a limit of zero; v0 sets the limit by instruction."""
    to = Pubkey.new_unique()
    for transaction in (
        compiled(give(PAYER, to, 5_000_000), loaded_accounts_data_size_limit=None, priority_fee=7),
        compiled(memo(5), loaded_accounts_data_size_limit=1_000, priority_fee=7),
    ):
        result = done(rich, transaction)
        assert (result.meta.err, result.meta.fee_lamports) == ("MaxLoadedAccountsDataSizeExceeded", 5_007)
        assert result.meta.logs == () and result.meta.compute_units == 0
        assert result.meta.pre_lamports[0] - result.meta.post_lamports[0] == 5_007
        assert [write.pubkey for write in result.writes] == [PAYER.pubkey()]
    legacy_rules = decode(bytes(v0(set_loaded_accounts_data_size_limit(1_000), memo(5))))
    assert isinstance(legacy_rules, Decoded)
    assert done(rich, legacy_rules).meta.err == "MaxLoadedAccountsDataSizeExceeded"
    assert rich.chain.vm.account(to) is None


def test_a_transaction_that_loads_too_much_is_refused_if_it_cannot_pay(local: LocalNode) -> None:
    decoded = compiled(memo(5), loaded_accounts_data_size_limit=64)
    local.faucet.airdrop(PAYER.pubkey(), 4_000_000)
    forged = VersionedTransaction.populate(decoded.message, [Signature.from_bytes(b"\x07" * 64)])
    bad = decode(bytes(forged))
    assert isinstance(bad, Decoded)
    assert run(local.chain.vm, bad, True, NEXT_NONCE) == Refused("SignatureFailure")
    poor = compiled(memo(5), loaded_accounts_data_size_limit=64, priority_fee=10**9)
    assert run(local.chain.vm, poor, True, NEXT_NONCE) == Refused("InsufficientFundsForFee")
    priced = compiled(memo(5), loaded_accounts_data_size_limit=64, priority_fee=4_000_000 - 5_000 - 1)
    too_poor_to_live = {"InsufficientFundsForRent": {"account_index": 0}}
    assert run(local.chain.vm, priced, True, NEXT_NONCE) == Refused(too_poor_to_live)
    nothing = decode(bytes(v0(set_loaded_accounts_data_size_limit(0), memo(5))))
    assert isinstance(nothing, Decoded)
    assert run(local.chain.vm, nothing, True, NEXT_NONCE) == Refused("InvalidLoadedAccountsDataSizeLimit")
    account = local.chain.vm.account(PAYER.pubkey())
    assert account is not None and account.lamports == 4_000_000
    last = done(local, compiled(memo(5), loaded_accounts_data_size_limit=64, priority_fee=4_000_000 - 5_000))
    assert last.meta.post_lamports[0] == 0


def test_compute_budget_instructions_ask_for_nothing_in_v1(rich: LocalNode) -> None:
    """Their price and their limits have no effect; they run, and all instructions keep their positions."""
    asking = (set_compute_unit_price(10**9), set_compute_unit_limit(1), request_heap_frame(65_536))
    decoded = compiled(*asking, set_loaded_accounts_data_size_limit(1), memo(5))
    result = done(rich, decoded)
    assert (result.meta.err, result.meta.fee_lamports) == (None, 5_000)
    given = for_vm(decoded)
    assert given is not decoded.transaction and given.signatures == decoded.transaction.signatures
    assert [one.program_id_index for one in given.message.instructions] == [
        one.program_id_index for one in decoded.message.instructions
    ]
    forged = VersionedTransaction.populate(decoded.message, [Signature.from_bytes(b"\x07" * 64)])
    bad = decode(bytes(forged))
    assert isinstance(bad, Decoded)
    assert run(rich.chain.vm, bad, True, NEXT_NONCE) == Refused("SignatureFailure")


def test_other_transactions_are_not_rewritten() -> None:
    plain, other = compiled(memo(5)), decode(bytes(v0(set_compute_unit_limit(1), memo(5))))
    assert isinstance(other, Decoded)
    assert for_vm(plain) is plain.transaction and for_vm(other) is other.transaction


def test_an_upgradeable_program_weighs_with_its_data() -> None:
    """The program's account is a pointer; its code is in another account, which counts as well."""
    program_data = Pubkey.new_unique()
    pointer = b"\x02\x00\x00\x00" + bytes(program_data)
    program = Account(1, pointer, UPGRADEABLE_LOADER, True, RENT_EPOCH_EXEMPT)
    data = Account(1, bytes(1_000), UPGRADEABLE_LOADER, False, RENT_EPOCH_EXEMPT)
    decoded = compiled(Instruction(MEMO, b"", []))
    held = {program_data: data}
    assert loaded_data_bytes(decoded, [None, program], held.get) == (64 + 36) + (64 + 1_000)
