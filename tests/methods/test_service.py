"""Methods that are listed and not offered."""

from actors.methods.catalog import METHODS
from actors.methods.prices import Availability, MethodClass


def test_what_is_denied_cannot_be_called() -> None:
    """Denied and disabled methods never reach the node, and never cost anything."""
    for row in METHODS.values():
        if row.method_class in (MethodClass.DENIED, MethodClass.ARCHIVE_HISTORY):
            assert not row.callable
            assert row.credits is None
            assert row.availability in (Availability.DENIED, Availability.FORBIDDEN, Availability.ARCHIVE)
    assert METHODS["requestAirdrop"].availability is Availability.FORBIDDEN
