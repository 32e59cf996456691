"""Transactions and their results as protobuf messages.

Implements: the messages of solana-storage.proto from the chain's records: the three versions (legacy: not versioned;
v0: versioned; v1: versioned and with a config), status meta with balances, inner instructions, logs and errors. An
error is Agave's enum serialized by bincode, little-endian: the variant's number in four bytes, then its fields. The
number is the position in the enum, so the order of the names below matters. Pure.
Not here: the updates around them (messages.py), JSON (parsing/transactions.py).
"""

from collections.abc import Iterable
from typing import Any

from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.geyser_proto import solana_storage_pb2 as storage
from devnode.encoding.accounts import ui_token_amount
from devnode.encoding.addresses import VOTE_PROGRAM
from devnode.encoding.wire import AnyMessage
from devnode.records.records import InnerInstructions, TokenBalance, TransactionMeta

_TRANSACTION = """
AccountInUse AccountLoadedTwice AccountNotFound ProgramAccountNotFound InsufficientFundsForFee InvalidAccountForFee
AlreadyProcessed BlockhashNotFound InstructionError CallChainTooDeep MissingSignatureForFee InvalidAccountIndex
SignatureFailure InvalidProgramForExecution SanitizeFailure ClusterMaintenance AccountBorrowOutstanding
WouldExceedMaxBlockCostLimit UnsupportedVersion InvalidWritableAccount WouldExceedMaxAccountCostLimit
WouldExceedAccountDataBlockLimit TooManyAccountLocks AddressLookupTableNotFound InvalidAddressLookupTableOwner
InvalidAddressLookupTableData InvalidAddressLookupTableIndex InvalidRentPayingAccount WouldExceedMaxVoteCostLimit
WouldExceedAccountDataTotalLimit DuplicateInstruction InsufficientFundsForRent MaxLoadedAccountsDataSizeExceeded
InvalidLoadedAccountsDataSizeLimit ResanitizationNeeded ProgramExecutionTemporarilyRestricted UnbalancedTransaction
ProgramCacheHitMaxLimit CommitCancelled
"""
_INSTRUCTION = """
GenericError InvalidArgument InvalidInstructionData InvalidAccountData AccountDataTooSmall InsufficientFunds
IncorrectProgramId MissingRequiredSignature AccountAlreadyInitialized UninitializedAccount UnbalancedInstruction
ModifiedProgramId ExternalAccountLamportSpend ExternalAccountDataModified ReadonlyLamportChange ReadonlyDataModified
DuplicateAccountIndex ExecutableModified RentEpochModified NotEnoughAccountKeys AccountDataSizeChanged
AccountNotExecutable AccountBorrowFailed AccountBorrowOutstanding DuplicateAccountOutOfSync Custom InvalidError
ExecutableDataModified ExecutableLamportChange ExecutableAccountNotRentExempt UnsupportedProgramId CallDepth
MissingAccount ReentrancyNotAllowed MaxSeedLengthExceeded InvalidSeeds InvalidRealloc ComputationalBudgetExceeded
PrivilegeEscalation ProgramEnvironmentSetupFailure ProgramFailedToComplete ProgramFailedToCompile Immutable
IncorrectAuthority BorshIoError AccountNotRentExempt InvalidAccountOwner ArithmeticOverflow UnsupportedSysvar
IllegalOwner MaxAccountsDataAllocationsExceeded MaxAccountsExceeded MaxInstructionTraceLengthExceeded
BuiltinProgramsMustConsumeComputeUnits
"""
_TRANSACTION_NUMBER = {name: number for number, name in enumerate(_TRANSACTION.split())}
_INSTRUCTION_NUMBER = {name: number for number, name in enumerate(_INSTRUCTION.split())}
_VOTE_SIGNATURES_MAX = 2


def error_bytes(err: Any) -> bytes:
    """Serialize a transaction error. err: RPC's JSON form, never None."""
    if isinstance(err, str):
        return _number(_TRANSACTION_NUMBER[err])
    name, detail = next(iter(err.items()))
    start = _number(_TRANSACTION_NUMBER[name])
    if name == "InstructionError":
        index, cause = detail
        return start + bytes((index,)) + _instruction_bytes(cause)
    # DuplicateInstruction has only an index; errors about an account have it in a field.
    return start + bytes((detail if isinstance(detail, int) else detail["account_index"],))


def _instruction_bytes(cause: Any) -> bytes:
    if isinstance(cause, str):
        return _number(_INSTRUCTION_NUMBER[cause])
    name, detail = next(iter(cause.items()))
    start = _number(_INSTRUCTION_NUMBER[name])
    if name == "Custom":
        return start + _number(detail)
    return start  # BorshIoError has no text in the enum any more.


def _number(number: int) -> bytes:
    return number.to_bytes(4, "little")


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
    """The meta of a transaction. Rewards are empty, because they belong to blocks; cost units are absent."""
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
