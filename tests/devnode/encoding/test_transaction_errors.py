from devnode.encoding.transaction_errors import error_text


def test_errors_have_the_texts_of_agave() -> None:
    assert error_text("BlockhashNotFound") == "Blockhash not found"
    assert error_text({"InstructionError": [2, {"Custom": 6_001}]}) == (
        "Error processing Instruction 2: custom program error: 0x1771"
    )
    assert error_text({"InstructionError": [0, "InvalidAccountData"]}) == (
        "Error processing Instruction 0: invalid account data for instruction"
    )
    assert error_text({"InsufficientFundsForRent": {"account_index": 3}}) == (
        "Transaction results in an account (3) with insufficient funds for rent"
    )
    duplicate = error_text({"DuplicateInstruction": 1})
    assert duplicate == "Transaction contains a duplicate instruction (1) that is not allowed"


def test_an_unlisted_name_is_its_own_text() -> None:
    assert error_text("SomethingNew") == "SomethingNew"
    assert error_text({"InstructionError": [0, "SomethingNew"]}) == "Error processing Instruction 0: SomethingNew"
