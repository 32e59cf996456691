import pytest

from actors.methods.catalog import METHODS
from actors.methods.prices import MethodClass
from actors.upstream.method_lanes import Lane, is_of_history, lane_of, may_repeat


@pytest.mark.parametrize("method", ["sendTransaction", "sendBundle", "requestAirdrop", "somethingNew", ""])
def test_what_is_not_known_to_only_read_is_never_repeated(method):
    """Sends are never asked twice; neither is what nobody knows."""
    assert lane_of(method) is Lane.SEND
    assert not may_repeat(method)


def test_every_method_of_the_catalog_has_the_lane_of_its_class():
    """Classes of methods fail together; reads may be repeated, all of them."""
    lanes = {
        MethodClass.READ_CHEAP: Lane.CHEAP,
        MethodClass.READ_MEDIUM: Lane.MEDIUM,
        MethodClass.READ_HEAVY: Lane.HEAVY,
        MethodClass.SEND: Lane.SEND,
        MethodClass.SEND_BUNDLE: Lane.SEND,
    }
    for row in METHODS.values():
        if row.method_class in lanes and not row.name.startswith("suggest"):
            assert lane_of(row.name) is lanes[row.method_class], row.name


def test_reads_that_are_no_product_count_as_heavy():
    """Parts of composed methods may be as slow as anything."""
    assert lane_of("getLargestAccounts") is Lane.HEAVY
    assert may_repeat("getLargestAccounts")


def test_history_is_blocks_and_transactions():
    """These go to nodes with the role archive first."""
    assert is_of_history("getBlock")
    assert not is_of_history("getBalance")
