"""Transaction errors as the stream carries them: the chain's own enums, serialized as bincode does.

Implements: `TransactionError.err` of the stream's format: variant number as four bytes, then the variant's fields,
little-endian. The numbers are places in Agave's enums, so the order of the names below is the format. Pure.
Not here: errors in words (encoding/transaction_errors.py).
"""

from typing import Any

_TRANSACTION = (
    "AccountInUse",
    "AccountLoadedTwice",
    "AccountNotFound",
    "ProgramAccountNotFound",
    "InsufficientFundsForFee",
    "InvalidAccountForFee",
    "AlreadyProcessed",
    "BlockhashNotFound",
    "InstructionError",
    "CallChainTooDeep",
    "MissingSignatureForFee",
    "InvalidAccountIndex",
    "SignatureFailure",
    "InvalidProgramForExecution",
    "SanitizeFailure",
    "ClusterMaintenance",
    "AccountBorrowOutstanding",
    "WouldExceedMaxBlockCostLimit",
    "UnsupportedVersion",
    "InvalidWritableAccount",
    "WouldExceedMaxAccountCostLimit",
    "WouldExceedAccountDataBlockLimit",
    "TooManyAccountLocks",
    "AddressLookupTableNotFound",
    "InvalidAddressLookupTableOwner",
    "InvalidAddressLookupTableData",
    "InvalidAddressLookupTableIndex",
    "InvalidRentPayingAccount",
    "WouldExceedMaxVoteCostLimit",
    "WouldExceedAccountDataTotalLimit",
    "DuplicateInstruction",
    "InsufficientFundsForRent",
    "MaxLoadedAccountsDataSizeExceeded",
    "InvalidLoadedAccountsDataSizeLimit",
    "ResanitizationNeeded",
    "ProgramExecutionTemporarilyRestricted",
    "UnbalancedTransaction",
    "ProgramCacheHitMaxLimit",
    "CommitCancelled",
)
_INSTRUCTION = (
    "GenericError",
    "InvalidArgument",
    "InvalidInstructionData",
    "InvalidAccountData",
    "AccountDataTooSmall",
    "InsufficientFunds",
    "IncorrectProgramId",
    "MissingRequiredSignature",
    "AccountAlreadyInitialized",
    "UninitializedAccount",
    "UnbalancedInstruction",
    "ModifiedProgramId",
    "ExternalAccountLamportSpend",
    "ExternalAccountDataModified",
    "ReadonlyLamportChange",
    "ReadonlyDataModified",
    "DuplicateAccountIndex",
    "ExecutableModified",
    "RentEpochModified",
    "NotEnoughAccountKeys",
    "AccountDataSizeChanged",
    "AccountNotExecutable",
    "AccountBorrowFailed",
    "AccountBorrowOutstanding",
    "DuplicateAccountOutOfSync",
    "Custom",
    "InvalidError",
    "ExecutableDataModified",
    "ExecutableLamportChange",
    "ExecutableAccountNotRentExempt",
    "UnsupportedProgramId",
    "CallDepth",
    "MissingAccount",
    "ReentrancyNotAllowed",
    "MaxSeedLengthExceeded",
    "InvalidSeeds",
    "InvalidRealloc",
    "ComputationalBudgetExceeded",
    "PrivilegeEscalation",
    "ProgramEnvironmentSetupFailure",
    "ProgramFailedToComplete",
    "ProgramFailedToCompile",
    "Immutable",
    "IncorrectAuthority",
    "BorshIoError",
    "AccountNotRentExempt",
    "InvalidAccountOwner",
    "ArithmeticOverflow",
    "UnsupportedSysvar",
    "IllegalOwner",
    "MaxAccountsDataAllocationsExceeded",
    "MaxAccountsExceeded",
    "MaxInstructionTraceLengthExceeded",
    "BuiltinProgramsMustConsumeComputeUnits",
)
_TRANSACTION_NUMBER = {name: number for number, name in enumerate(_TRANSACTION)}
_INSTRUCTION_NUMBER = {name: number for number, name in enumerate(_INSTRUCTION)}


def error_bytes(err: Any) -> bytes:
    """err: the JSON form that RPC shows, never None."""
    if isinstance(err, str):
        return _number(_TRANSACTION_NUMBER[err])
    name, detail = next(iter(err.items()))
    start = _number(_TRANSACTION_NUMBER[name])
    if name == "InstructionError":
        index, cause = detail
        return start + bytes((index,)) + _instruction_bytes(cause)
    # DuplicateInstruction has a bare index; those that name an account have it in a field.
    return start + bytes((detail if isinstance(detail, int) else detail["account_index"],))


def _instruction_bytes(cause: Any) -> bytes:
    if isinstance(cause, str):
        return _number(_INSTRUCTION_NUMBER[cause])
    name, detail = next(iter(cause.items()))
    start = _number(_INSTRUCTION_NUMBER[name])
    if name == "Custom":
        return start + _number(detail)
    return start  # BorshIoError: its text is not part of the enum any more.


def _number(number: int) -> bytes:
    return number.to_bytes(4, "little")
