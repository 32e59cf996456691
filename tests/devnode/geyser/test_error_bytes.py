"""Serialized transaction errors."""

import pytest
from solders.transaction_status import InstructionErrorFieldless, TransactionErrorFieldless

from devnode.geyser.error_bytes import _INSTRUCTION_NUMBER, _TRANSACTION_NUMBER, error_bytes


@pytest.mark.parametrize(
    ("err", "wanted"),
    [
        ("AccountInUse", "00000000"),
        ("BlockhashNotFound", "07000000"),
        ("CommitCancelled", "26000000"),
        ({"InstructionError": [2, {"Custom": 6000}]}, "080000000219000000" + "70170000"),
        ({"InstructionError": [0, "GenericError"]}, "080000000000000000"),
        ({"InstructionError": [1, "BuiltinProgramsMustConsumeComputeUnits"]}, "080000000135000000"),
        ({"InstructionError": [1, {"BorshIoError": "text"}]}, "08000000012c000000"),
        ({"DuplicateInstruction": 3}, "1e00000003"),
        ({"InsufficientFundsForRent": {"account_index": 4}}, "1f00000004"),
        ({"ProgramExecutionTemporarilyRestricted": {"account_index": 5}}, "2300000005"),
    ],
)
def test_variant_numbers_and_fields(err: object, wanted: str) -> None:
    """Numbers are little-endian: four bytes for a variant, one for an index."""
    assert error_bytes(err).hex() == wanted


@pytest.mark.parametrize(
    ("enum", "numbers"),
    [(TransactionErrorFieldless, _TRANSACTION_NUMBER), (InstructionErrorFieldless, _INSTRUCTION_NUMBER)],
)
def test_every_error_of_the_runtime_has_a_number(enum: type, numbers: dict[str, int]) -> None:
    """An error without a number would end the stream when it first occurs."""
    names = [name for name in dir(enum) if name[0].isupper()]
    assert len(names) > 30
    assert [name for name in names if name not in numbers] == []
