"""Reading block filters from a request."""

import pytest

from actors.geyser_proto import geyser_pb2
from devnode.geyser.block_filters import read_block_filters
from devnode.geyser.limits import NO_LIMITS, BadFilter, BlockLimits

from .samples import KEYS

Asked = geyser_pb2.SubscribeRequestFilterBlocks


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        (Asked(), (True, False, False)),
        (Asked(include_transactions=False), (False, False, False)),
        (Asked(include_transactions=True, include_accounts=True), (True, True, False)),
        (Asked(include_accounts=False, include_entries=True), (True, False, True)),
    ],
)
def test_transactions_are_the_default(asked: Asked, parts: tuple[bool, bool, bool]) -> None:
    """Accounts and entries are only sent on request."""
    ((name, shape),) = ((one.name, one.shape) for one in read_block_filters({"it": asked}, NO_LIMITS.blocks, ((1, 2),)))
    assert (shape.has_transactions, shape.has_accounts, shape.has_entries) == parts
    assert name == "it" and shape.slices == ((1, 2),)


@pytest.mark.parametrize(
    ("asked", "limits", "text"),
    [
        (Asked(), BlockLimits(include_transactions=False), "`include_transactions` is not allowed"),
        (Asked(include_accounts=True), BlockLimits(include_accounts=False), "`include_accounts` is not allowed"),
        (Asked(include_entries=True), BlockLimits(include_entries=False), "`include_entries` is not allowed"),
        (Asked(), BlockLimits(account_include_any=False), "at least one filter required"),
        (Asked(account_include=[str(KEYS[0])]), BlockLimits(account_include_max=0), "only 0 allowed"),
        (Asked(), BlockLimits(max=0), "filters/data_slices reached, only 0 allowed"),
    ],
)
def test_limits_are_enforced(asked: Asked, limits: BlockLimits, text: str) -> None:
    """A forbidden part is an error, not left out."""
    with pytest.raises(BadFilter, match=text):
        read_block_filters({"it": asked}, limits, ())


def test_a_forbidden_part_does_not_affect_other_filters() -> None:
    """A limit applies only to filters that ask for the part."""
    limits = BlockLimits(include_transactions=False, include_accounts=False, include_entries=False)
    assert len(read_block_filters({"it": Asked(include_transactions=False)}, limits, ())) == 1
