import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageHeader, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import SYSTEM_PROGRAM, SYSVAR_CLOCK
from devnode.encoding.wire import (
    PACKET_BYTES_MAX,
    PACKET_BYTES_MAX_V1,
    Decoded,
    Malformed,
    decode,
    writable_indexes,
)

PAYER = Keypair.from_seed(bytes(32))
OTHER = Pubkey.from_bytes(b"\x05" * 32)
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
GIVE = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=OTHER, lamports=5))


def legacy() -> VersionedTransaction:
    return VersionedTransaction(Message.new_with_blockhash([GIVE], PAYER.pubkey(), Hash.default()), [PAYER])


def v0(*instructions: Instruction) -> VersionedTransaction:
    message = MessageV0.try_compile(PAYER.pubkey(), list(instructions or (GIVE,)), [], Hash.default())
    return VersionedTransaction(message, [PAYER])


def v1(*instructions: Instruction) -> VersionedTransaction:
    config = TransactionConfig(compute_unit_limit=1_000, loaded_accounts_data_size_limit=100_000)
    message = MessageV1.try_compile(PAYER.pubkey(), list(instructions or (GIVE,)), Hash.default(), config=config)
    return VersionedTransaction(message, [PAYER])


def memo(size: int) -> Instruction:
    return Instruction(MEMO, b"m" * size, [])


@pytest.mark.parametrize(("transaction", "version"), [(legacy(), None), (v0(), 0), (v1(), 1)])
def test_all_three_versions_are_read(transaction: VersionedTransaction, version: int | None) -> None:
    decoded = decode(bytes(transaction))
    assert isinstance(decoded, Decoded)
    assert (decoded.version, decoded.signature) == (version, transaction.signatures[0])
    assert decoded.keys[0] == PAYER.pubkey() and len(decoded.instructions()) == 1


@pytest.mark.parametrize("transaction", [legacy(), v0(), v1()])
def test_trailing_bytes_are_refused(transaction: VersionedTransaction) -> None:
    """A signed transaction must have one byte form only."""
    assert isinstance(decode(bytes(transaction) + b"\x00"), Malformed)


def test_size_limits_by_version() -> None:
    """1,232 bytes for legacy and v0, 4,096 for v1."""
    overhead = len(bytes(v0(memo(1_000)))) - 1_000
    fitting = v0(memo(PACKET_BYTES_MAX - overhead))
    assert len(bytes(fitting)) == PACKET_BYTES_MAX
    assert isinstance(decode(bytes(fitting)), Decoded)
    assert isinstance(decode(bytes(v0(memo(PACKET_BYTES_MAX - overhead + 1)))), Malformed)
    large = v1(memo(3_500))
    assert len(bytes(large)) < PACKET_BYTES_MAX_V1 and isinstance(decode(bytes(large)), Decoded)
    too_large = decode(bytes(v1(memo(4_100))))
    assert isinstance(too_large, Malformed) and "too large" in too_large.text


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_decoder(raw: bytes) -> None:
    assert isinstance(decode(raw), (Decoded, Malformed))


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_read_as_sent(position: int, value: int) -> None:
    """An accepted transaction serializes to the same bytes."""
    raw = bytearray(bytes(v0()))
    raw[position % len(raw)] = value
    decoded = decode(bytes(raw))
    if isinstance(decoded, Decoded):
        assert bytes(decoded.transaction) == bytes(raw)


def broken(header: MessageHeader, keys: list[Pubkey], program: int, accounts: bytes) -> bytes:
    instruction = CompiledInstruction(program_id_index=program, accounts=accounts, data=b"")
    message = MessageV0(header, keys, Hash.default(), [instruction], [])
    signatures = [Signature.default()] * header.num_required_signatures
    return bytes(VersionedTransaction.populate(message, signatures))


@pytest.mark.parametrize(
    "raw",
    [
        broken(MessageHeader(1, 0, 1), [OTHER, SYSTEM_PROGRAM], 0, b""),  # The payer is no program.
        broken(MessageHeader(1, 0, 1), [OTHER, SYSTEM_PROGRAM], 5, b""),  # No such program.
        broken(MessageHeader(1, 0, 1), [OTHER, SYSTEM_PROGRAM], 1, b"\x09"),  # No such account.
        broken(MessageHeader(1, 1, 1), [OTHER, SYSTEM_PROGRAM], 1, b""),  # The payer is readonly.
        broken(MessageHeader(1, 0, 3), [OTHER, SYSTEM_PROGRAM], 1, b""),  # More readonly keys than keys.
        broken(MessageHeader(1, 0, 1), [OTHER, OTHER, SYSTEM_PROGRAM], 2, b""),  # A key twice.
        broken(MessageHeader(0, 0, 1), [OTHER, SYSTEM_PROGRAM], 1, b""),  # No signer.
    ],
)
def test_unsound_structure_is_refused(raw: bytes) -> None:
    assert isinstance(decode(raw), Malformed)


def test_more_than_twelve_signatures_are_refused() -> None:
    signers = [Keypair() for _ in range(13)]
    accounts = [AccountMeta(signer.pubkey(), True, False) for signer in signers]
    message = MessageV0.try_compile(signers[0].pubkey(), [Instruction(MEMO, b"", accounts)], [], Hash.default())
    raw = bytes(VersionedTransaction(message, signers))
    assert isinstance(decode(raw), Malformed)


def test_programs_and_sysvars_are_never_write_locked() -> None:
    """A header that makes a program or sysvar writable does not get a write lock."""
    touch = Instruction(MEMO, b"", [AccountMeta(SYSVAR_CLOCK, False, True), AccountMeta(OTHER, False, True)])
    message = MessageV0.try_compile(PAYER.pubkey(), [touch], [], Hash.default())
    keys = tuple(message.account_keys)
    writable = {keys[index] for index in writable_indexes(message, keys)}
    assert writable == {PAYER.pubkey(), OTHER}
