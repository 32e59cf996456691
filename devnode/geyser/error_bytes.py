"""Transaction errors as bytes: Agave's enums, serialized by bincode.

Implements: `TransactionError.err` of the stream's format: the variant's number in four bytes, then its fields,
little-endian. The number is the position in Agave's enum, so the order of the names below matters. Pure.
Not here: texts of errors (encoding/transaction_errors.py).
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
