"""Transactions and their results as protobuf messages.

Implements: the messages of solana-storage.proto from the chain's records: the three versions (legacy: not versioned;
v0: versioned; v1: versioned and with a config), status meta with balances, inner instructions, logs and errors. Pure.
Not here: the updates around them (messages.py), JSON (encoding/transactions.py).
"""

from collections.abc import Iterable

from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.geyser_proto import solana_storage_pb2 as storage
from devnode.encoding.accounts import ui_token_amount
from devnode.encoding.addresses import VOTE_PROGRAM
from devnode.encoding.wire import AnyMessage
from devnode.geyser.error_bytes import error_bytes
from devnode.records.records import InnerInstructions, TokenBalance, TransactionMeta

_VOTE_SIGNATURES_MAX = 2


def is_simple_vote(transaction: VersionedTransaction) -> bool:
    """Agave's rule: a legacy message of one instruction for the vote program, with one or two signatures."""
    message = transaction.message
    if isinstance(message, MessageV0 | MessageV1) or len(transaction.signatures) > _VOTE_SIGNATURES_MAX:
        return False
    instructions = message.instructions
    return len(instructions) == 1 and message.account_keys[instructions[0].program_id_index] == VOTE_PROGRAM


def transaction_message(transaction: VersionedTransaction) -> storage.Transaction:
    return storage.Transaction(
        signatures=[bytes(signature) for signature in transaction.signatures],
        message=_message(transaction.message),
    )


def _message(message: AnyMessage) -> storage.Message:
    header = message.header
    built = storage.Message(
        header=storage.MessageHeader(
            num_required_signatures=header.num_required_signatures,
            num_readonly_signed_accounts=header.num_readonly_signed_accounts,
            num_readonly_unsigned_accounts=header.num_readonly_unsigned_accounts,
        ),
        account_keys=[bytes(key) for key in message.account_keys],
        recent_blockhash=bytes(message.recent_blockhash),
        instructions=[
            storage.CompiledInstruction(
                program_id_index=instruction.program_id_index,
                accounts=bytes(instruction.accounts),
                data=bytes(instruction.data),
            )
            for instruction in message.instructions
        ],
        versioned=isinstance(message, MessageV0 | MessageV1),
    )
    if isinstance(message, MessageV0):
        for lookup in message.address_table_lookups:
            built.address_table_lookups.add(
                account_key=bytes(lookup.account_key),
                writable_indexes=bytes(lookup.writable_indexes),
                readonly_indexes=bytes(lookup.readonly_indexes),
            )
    elif isinstance(message, MessageV1):
        config = message.config
        built.config.SetInParent()  # Present even if empty, because the config distinguishes v1 from v0.
        built.config.MergeFrom(
            storage.TransactionConfig(
                priority_fee=config.priority_fee,
                compute_unit_limit=config.compute_unit_limit,
                loaded_accounts_data_size_limit=config.loaded_accounts_data_size_limit,
                heap_size=config.heap_size,
            )
        )
    return built


def meta_message(meta: TransactionMeta) -> storage.TransactionStatusMeta:
    """The meta of a transaction. Rewards are empty and cost units absent, because this chain has neither."""
    built = storage.TransactionStatusMeta(
        err=error_message(meta.err),
        fee=meta.fee_lamports,
        pre_balances=meta.pre_lamports,
        post_balances=meta.post_lamports,
        inner_instructions=[_inner(group) for group in meta.inner],
        log_messages=meta.logs,
        pre_token_balances=_balances(meta.pre_tokens),
        post_token_balances=_balances(meta.post_tokens),
        loaded_writable_addresses=_keys(meta.loaded_writable),
        loaded_readonly_addresses=_keys(meta.loaded_readonly),
        return_data_none=meta.return_data is None,
        compute_units_consumed=meta.compute_units,
    )
    if meta.return_data is not None:
        program = bytes(Pubkey.from_string(meta.return_data.program))
        built.return_data.CopyFrom(storage.ReturnData(program_id=program, data=meta.return_data.data))
    return built


def error_message(err: object) -> storage.TransactionError | None:
    return None if err is None else storage.TransactionError(err=error_bytes(err))


def _inner(group: InnerInstructions) -> storage.InnerInstructions:
    calls = [
        storage.InnerInstruction(
            program_id_index=call.program_index,
            accounts=call.accounts,
            data=call.data,
            stack_height=call.stack_height,
        )
        for call in group.instructions
    ]
    return storage.InnerInstructions(index=group.index, instructions=calls)


def _balances(balances: Iterable[TokenBalance]) -> list[storage.TokenBalance]:
    found = []
    for balance in balances:
        shown = ui_token_amount(balance.amount, balance.decimals)
        amount = storage.UiTokenAmount(
            ui_amount=shown["uiAmount"] or 0.0,
            decimals=balance.decimals,
            amount=shown["amount"],
            ui_amount_string=shown["uiAmountString"],
        )
        found.append(
            storage.TokenBalance(
                account_index=balance.account_index,
                mint=balance.mint,
                ui_token_amount=amount,
                owner=balance.owner,
                program_id=balance.program,
            )
        )
    return found


def _keys(keys: Iterable[str]) -> list[bytes]:
    return [bytes(Pubkey.from_string(key)) for key in keys]
