from devnode.rpc import errors


def test_codes_and_texts_are_those_of_a_node() -> None:
    """Clients distinguish errors by code and by text."""
    table = {
        errors.block_cleaned_up(5, 9): (-32001, "Block 5 cleaned up, does not exist on node. First available block: 9"),
        errors.preflight_failure("x", {}): (-32002, "Transaction simulation failed: x"),
        errors.block_not_available(5): (-32004, "Block not available for slot 5"),
        errors.node_unhealthy(None): (-32005, "Node is unhealthy"),
        errors.node_unhealthy(7): (-32005, "Node is behind by 7 slots"),
        errors.slot_skipped(5): (-32007, "Slot 5 was skipped, or missing due to ledger jump to recent snapshot"),
        errors.no_snapshot(): (-32008, "No snapshot"),
        errors.min_context_slot_not_reached(5): (-32016, "Minimum context slot has not been reached"),
        errors.transaction_not_found("abc"): (-32020, "Transaction abc not found"),
    }
    for error, (code, message) in table.items():
        assert (error.code, error.message) == (code, message)


def test_only_errors_with_data_show_the_field() -> None:
    assert errors.no_snapshot().body() == {"code": -32008, "message": "No snapshot"}
    assert errors.min_context_slot_not_reached(5).body()["data"] == {"contextSlot": 5}
    assert errors.node_unhealthy(None).body()["data"] == {"numSlotsBehind": None}
    assert '"maxSupportedTransactionVersion": 1' in errors.unsupported_transaction_version(1).message
