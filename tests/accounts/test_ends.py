"""How an operation ended, as its debit tells it."""

import msgspec

from actors.accounts.ends import End, posted, posted_by
from actors.accounts.ledger import Entry, EntryType
from actors.accounts.named_keys import DAY_MS

DEBIT = Entry(1, 5 * DAY_MS + 7, int(EntryType.DEBIT), -3, 7, b"o" * 16, "getSlot", 0, "request digest", "1:-3")


def test_a_debit_tells_how_its_operation_ended() -> None:
    """A refund needs the parcels; the day counts for a named key alone."""
    assert posted_by(DEBIT) == posted("getSlot", "1:-3") and posted_by(DEBIT).end is End.POSTED
    keyed = msgspec.structs.replace(DEBIT, description="request digest|4")
    assert posted_by(keyed) == posted("getSlot", "1:-3", 4, 5)


def test_equal_ends_are_one_object() -> None:
    assert posted("getSlot", "1:-3") is posted("getSlot", "1:-3")
