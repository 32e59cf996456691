"""Texts of transaction errors.

Implements: Agave's texts after "Transaction simulation failed: ". Pure.
"""

from typing import Any

_SIMPLE = {
    "AccountInUse": "Account in use",
    "AccountLoadedTwice": "Account loaded twice",
    "AccountNotFound": "Attempt to debit an account but found no record of a prior credit.",
    "ProgramAccountNotFound": "Attempt to load a program that does not exist",
    "InsufficientFundsForFee": "Insufficient funds for fee",
    "InvalidAccountForFee": "This account may not be used to pay transaction fees",
    "AlreadyProcessed": "This transaction has already been processed",
    "BlockhashNotFound": "Blockhash not found",
    "CallChainTooDeep": "Loader call chain is too deep",
    "MissingSignatureForFee": "Transaction requires a fee but has no signature present",
    "InvalidAccountIndex": "Transaction contains an invalid account reference",
    "SignatureFailure": "Transaction did not pass signature verification",
    "InvalidProgramForExecution": "This program may not be used for executing instructions",
    "SanitizeFailure": "Transaction failed to sanitize accounts offsets correctly",
    "ClusterMaintenance": "Transactions are currently disabled due to cluster maintenance",
    "AccountBorrowOutstanding": "Transaction processing left an account with an outstanding borrowed reference",
    "UnsupportedVersion": "Transaction version is unsupported",
    "InvalidWritableAccount": "Transaction loads a writable account that cannot be written",
    "TooManyAccountLocks": "Transaction locked too many accounts",
    "AddressLookupTableNotFound": "Transaction loads an address table account that doesn't exist",
    "InvalidAddressLookupTableOwner": "Transaction loads an address table account with an invalid owner",
    "InvalidAddressLookupTableData": "Transaction loads an address table account with invalid data",
    "InvalidAddressLookupTableIndex": "Transaction address table lookup uses an invalid index",
    "InvalidRentPayingAccount": "Transaction leaves an account with a lower balance than rent-exempt minimum",
    "MaxLoadedAccountsDataSizeExceeded": "Transaction exceeded max loaded accounts data size cap",
    "InvalidLoadedAccountsDataSizeLimit": "LoadedAccountsDataSizeLimit set for transaction must be greater than 0.",
    "ResanitizationNeeded": "ResanitizationNeeded",
    "UnbalancedTransaction": "Sum of account balances before and after transaction do not match",
    "ProgramCacheHitMaxLimit": "Program cache hit max limit",
}
_INSTRUCTION = {
    "GenericError": "generic instruction error",
    "InvalidArgument": "invalid program argument",
    "InvalidInstructionData": "invalid instruction data",
    "InvalidAccountData": "invalid account data for instruction",
    "AccountDataTooSmall": "account data too small for instruction",
    "InsufficientFunds": "insufficient funds for instruction",
    "IncorrectProgramId": "incorrect program id for instruction",
    "MissingRequiredSignature": "missing required signature for instruction",
    "AccountAlreadyInitialized": "instruction requires an uninitialized account",
    "UninitializedAccount": "instruction requires an initialized account",
    "NotEnoughAccountKeys": "insufficient account keys for instruction",
    "MissingAccount": "An account required by the instruction is missing",
    "ComputationalBudgetExceeded": "Computational budget exceeded",
    "ProgramFailedToComplete": "Program failed to complete",
    "UnsupportedProgramId": "Unsupported program id",
    "PrivilegeEscalation": "Cross-program invocation with unauthorized signer or writable account",
    "ReadonlyLamportChange": "instruction changed the balance of a read-only account",
    "ReadonlyDataModified": "instruction modified data of a read-only account",
    "ExternalAccountLamportSpend": "instruction spent from the balance of an account it does not own",
    "InvalidAccountOwner": "Invalid account owner",
    "InvalidSeeds": "Provided seeds do not result in a valid address",
    "IllegalOwner": "Provided owner is not allowed",
    "ArithmeticOverflow": "Program arithmetic overflowed",
    "UnsupportedSysvar": "Unsupported sysvar",
}


def error_text(err: Any) -> str:
    """The text of a transaction error. A name without a listed text is its own text.

    err: the error in RPC's JSON form."""
    if isinstance(err, str):
        return _SIMPLE.get(err, err)
    name, detail = next(iter(err.items()))
    if name == "InstructionError":
        index, cause = detail
        return f"Error processing Instruction {index}: {instruction_error_text(cause)}"
    if name == "DuplicateInstruction":
        return f"Transaction contains a duplicate instruction ({detail}) that is not allowed"
    if name == "InsufficientFundsForRent":
        return f"Transaction results in an account ({detail['account_index']}) with insufficient funds for rent"
    if name == "ProgramExecutionTemporarilyRestricted":
        return f"Execution of the program referenced by account at index {detail['account_index']} is temporarily restricted."  # noqa: E501 - the chain's own sentence.
    return str(name)


def instruction_error_text(cause: Any) -> str:
    """The text of an instruction error. cause: the error in RPC's JSON form."""
    if isinstance(cause, str):
        return _INSTRUCTION.get(cause, cause)
    name, detail = next(iter(cause.items()))
    if name == "Custom":
        return f"custom program error: {detail:#x}"
    return f"Failed to serialize or deserialize account data: {detail}" if name == "BorshIoError" else str(name)
