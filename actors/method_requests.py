"""What a method of our own is asked, once its parameters have passed the checks.

Implements: interface specification, "getTransactionHistory", "suggestPriorityFee", getAssetsByOwner and "Bulk
endpoints": the forms that clients may choose between are here one form, with every default filled in.
Pure vocabulary. The door makes these (gateway/params_own.py, gateway/bulk.py) and the context that answers reads them,
so neither knows the other; they travel as the bytes of the parameters.
"""

import msgspec

ENCODER = msgspec.json.Encoder()


class FeeQuestion(msgspec.Struct, frozen=True):
    """suggestPriorityFee. accounts: none for the global window."""

    urgency: str
    accounts: tuple[str, ...]


class EstimateQuestion(msgspec.Struct, frozen=True):
    """getPriorityFeeEstimate. percent: 0 to 100; empty_as_zero: slots in which nobody paid count as they are."""

    accounts: tuple[str, ...]
    percent: int
    with_levels: bool
    empty_as_zero: bool
    lookback_slots: int


class AssetsQuestion(msgspec.Struct, frozen=True):
    """getAssetsByOwner. page: from 1, of `limit` mints each."""

    owner: str
    page: int
    limit: int


class HistoryQuestion(msgspec.Struct, frozen=True):
    """getTransactionHistory. before, until: signatures that bound the listing, as getSignaturesForAddress has them."""

    address: str
    limit: int
    commitment: str
    before: str | None = None
    until: str | None = None


class BulkQuestion(msgspec.Struct, frozen=True):
    """A bulk look-up of these addresses, owners or signatures, each once."""

    items: tuple[str, ...]


Question = FeeQuestion | EstimateQuestion | AssetsQuestion | HistoryQuestion | BulkQuestion


def encoded(question: Question) -> bytes:
    return ENCODER.encode(question)
