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
from solders.transaction import VersionedTransaction

from devnode.encoding.wire import Decoded, decode
from devnode.execution.fees import HEAP_BYTES, LOADED_DATA_BYTES_MAX, ComputeBudget, compute_budget
from tests.devnode.encoding.test_wire import GIVE, PAYER


def budget_of(*instructions: Instruction) -> ComputeBudget:
    message = MessageV0.try_compile(PAYER.pubkey(), list(instructions), [], Hash.default())
    decoded = decode(bytes(VersionedTransaction(message, [PAYER])))
    assert isinstance(decoded, Decoded)
    return compute_budget(decoded)


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
    decoded = decode(bytes(VersionedTransaction(message, [PAYER])))
    assert isinstance(decoded, Decoded)
    assert compute_budget(decoded) == ComputeBudget(5_000, 777, 1_000, HEAP_BYTES, 0)


def test_heap_and_loaded_data_limits_are_set_by_instruction() -> None:
    """Legacy and v0 set limits by instruction; a data limit above the maximum becomes the maximum."""
    budget = budget_of(request_heap_frame(65_536), set_loaded_accounts_data_size_limit(9_000), GIVE)
    assert (budget.heap_bytes, budget.loaded_data_bytes_max) == (65_536, 9_000)
    assert budget_of(set_loaded_accounts_data_size_limit(2**32 - 1)).loaded_data_bytes_max == LOADED_DATA_BYTES_MAX
