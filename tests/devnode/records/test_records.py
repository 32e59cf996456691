import msgspec

from devnode.records.records import (
    InnerInstruction,
    InnerInstructions,
    ReturnData,
    TokenBalance,
    TransactionMeta,
)

META = TransactionMeta(
    err={"InstructionError": [0, {"Custom": 1}]},
    fee_lamports=5_000,
    compute_units=150,
    pre_lamports=(2**64 - 1, 0),
    post_lamports=(1, 2),
    pre_tokens=(TokenBalance(1, "mint", "owner", "program", 2**64 - 1, 6),),
    post_tokens=(),
    inner=(InnerInstructions(0, (InnerInstruction(2, b"\x00\x01", b"\xff", 2),)),),
    logs=("Program log: héllo",),
    loaded_writable=("a",),
    loaded_readonly=(),
    return_data=ReturnData("program", b"\x00\x01"),
)


def test_meta_survives_being_written_and_read() -> None:
    """Bytes, 64-bit numbers and errors are equal after writing and reading."""
    assert msgspec.json.decode(msgspec.json.encode(META), type=TransactionMeta) == META
