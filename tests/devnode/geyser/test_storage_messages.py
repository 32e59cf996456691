"""Transactions and their errors as protobuf messages."""

import msgspec
import pytest
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import CompiledInstruction
from solders.message import (
    Message,
    MessageAddressTableLookup,
    MessageHeader,
    MessageV0,
    MessageV1,
    TransactionConfig,
    to_bytes_versioned,
)
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_status import InstructionErrorFieldless, TransactionErrorFieldless

from actors.geyser_proto import solana_storage_pb2 as storage
from devnode.encoding.wire import AnyMessage
from devnode.geyser.storage_messages import (
    _INSTRUCTION_NUMBER,
    _TRANSACTION_NUMBER,
    error_bytes,
    error_message,
    is_simple_vote,
    meta_message,
    transaction_message,
)
from devnode.records.records import InnerInstruction, InnerInstructions, ReturnData
from tests.devnode.local_node import give

from .samples import KEYS, PAYER, balance, meta


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


TABLE = AddressLookupTableAccount(KEYS[5], [KEYS[0], KEYS[1]])
INSTRUCTION = give(PAYER, KEYS[0], 1)
MESSAGES: dict[str, AnyMessage] = {
    "legacy": Message.new_with_blockhash([INSTRUCTION], PAYER.pubkey(), Hash.new_unique()),
    "v0": MessageV0.try_compile(PAYER.pubkey(), [INSTRUCTION], [TABLE], Hash.new_unique()),
    "v1": MessageV1.try_compile(
        PAYER.pubkey(), [INSTRUCTION], Hash.new_unique(), TransactionConfig(priority_fee=7, compute_unit_limit=300)
    ),
    "v1 without limits": MessageV1.try_compile(PAYER.pubkey(), [INSTRUCTION], Hash.new_unique(), TransactionConfig()),
}


def rebuilt(message: storage.Message) -> AnyMessage:
    """Rebuild the message by the format's rule for versions, as a client does."""
    header = MessageHeader(
        message.header.num_required_signatures,
        message.header.num_readonly_signed_accounts,
        message.header.num_readonly_unsigned_accounts,
    )
    keys = [Pubkey.from_bytes(key) for key in message.account_keys]
    blockhash = Hash.from_bytes(message.recent_blockhash)
    calls = [CompiledInstruction(call.program_id_index, call.data, call.accounts) for call in message.instructions]
    if not message.versioned:
        return Message.new_with_compiled_instructions(
            header.num_required_signatures,
            header.num_readonly_signed_accounts,
            header.num_readonly_unsigned_accounts,
            keys,
            blockhash,
            calls,
        )
    if message.HasField("config"):
        limits = {field.name: getattr(message.config, field.name) for field, _ in message.config.ListFields()}
        return MessageV1(header, TransactionConfig(**limits), blockhash, keys, calls)
    lookups = [
        MessageAddressTableLookup(Pubkey.from_bytes(one.account_key), one.writable_indexes, one.readonly_indexes)
        for one in message.address_table_lookups
    ]
    return MessageV0(header, keys, blockhash, calls, lookups)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_client_can_rebuild_the_signed_message(name: str) -> None:
    """In every version, the rebuilt message equals the signed one byte for byte."""
    transaction = VersionedTransaction(MESSAGES[name], [PAYER])
    sent = transaction_message(transaction)
    assert list(sent.signatures) == [bytes(one) for one in transaction.signatures]
    assert to_bytes_versioned(rebuilt(sent.message)) == to_bytes_versioned(transaction.message)


def test_only_v1_has_a_config() -> None:
    """The config is present in v1 even if it is empty, and absent in every other version."""
    sent = {name: transaction_message(VersionedTransaction(one, [PAYER])).message for name, one in MESSAGES.items()}
    assert {name: one.versioned for name, one in sent.items()} == {
        "legacy": False,
        "v0": True,
        "v1": True,
        "v1 without limits": True,
    }
    assert [name for name, one in sent.items() if one.HasField("config")] == ["v1", "v1 without limits"]
    assert len(sent["v0"].address_table_lookups) == 1


def test_the_meta_has_all_fields() -> None:
    """Fee, balances in lamports and tokens, inner instructions, logs, loaded accounts, return data."""
    inner = InnerInstructions(1, (InnerInstruction(2, b"\x00\x01", b"data", 2),))
    done = msgspec.structs.replace(
        meta(pre=(balance(1, KEYS[2], 0),), post=(balance(1, KEYS[2], 1_500_000),)),
        inner=(inner,),
        loaded_writable=(str(KEYS[3]),),
        loaded_readonly=(str(KEYS[4]),),
        return_data=ReturnData(str(KEYS[5]), b"back"),
    )
    sent = meta_message(done)
    assert (sent.fee, sent.compute_units_consumed) == (5_000, 150)
    assert not sent.HasField("err") and not sent.HasField("cost_units")
    assert list(sent.pre_balances) == [10, 0, 1] and list(sent.post_balances) == [3, 2, 1]
    (group,) = sent.inner_instructions
    (call,) = group.instructions
    assert (group.index, call.program_id_index, call.accounts, call.data, call.stack_height) == (
        *(1, 2, b"\x00\x01", b"data", 2),
    )
    amount = sent.post_token_balances[0].ui_token_amount
    assert (amount.ui_amount, amount.decimals, amount.amount, amount.ui_amount_string) == (1.5, 6, "1500000", "1.5")
    assert sent.pre_token_balances[0].ui_token_amount.ui_amount == 0.0
    assert sent.pre_token_balances[0].owner == str(KEYS[2])
    assert list(sent.loaded_writable_addresses) == [bytes(KEYS[3])]
    assert list(sent.loaded_readonly_addresses) == [bytes(KEYS[4])]
    assert (sent.return_data.program_id, sent.return_data.data) == (bytes(KEYS[5]), b"back")
    assert not sent.return_data_none and not sent.log_messages_none and not sent.inner_instructions_none


def test_missing_return_data_has_a_flag() -> None:
    """The format distinguishes empty return data from none."""
    assert meta_message(meta()).return_data_none


def test_a_success_has_no_error() -> None:
    """The field is absent, not empty."""
    assert error_message(None) is None
    sent = error_message("AccountInUse")
    assert sent is not None and sent.err == bytes(4)


def test_a_transfer_is_no_vote() -> None:
    """A transfer in any version is not a simple vote."""
    assert not any(is_simple_vote(VersionedTransaction(one, [PAYER])) for one in MESSAGES.values())
