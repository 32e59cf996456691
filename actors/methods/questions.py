"""The parameters of the methods that the product itself answers, after they have been checked.

Implements: interface, "getTransactionHistory", "suggestPriorityFee", "executeSnipe", "executeSell",
getAssetsByOwner and "Bulk endpoints". Clients may write a request in several forms; here it has one form, with every
default filled in.
Pure vocabulary. The gateway encodes a request (methods/own.py, doors/bulk.py) and the context that answers decodes
it, so neither imports the other.
"""

import msgspec

ENCODER = msgspec.json.Encoder()


class FeeQuestion(msgspec.Struct, frozen=True):
    """suggestPriorityFee. accounts: empty for the global window."""

    urgency: str
    accounts: tuple[str, ...]


class EstimateQuestion(msgspec.Struct, frozen=True):
    """getPriorityFeeEstimate. percent: 0 to 100; empty_as_zero: slots without a paid fee count as zero."""

    accounts: tuple[str, ...]
    percent: int
    with_levels: bool
    empty_as_zero: bool
    lookback_slots: int


class AssetsQuestion(msgspec.Struct, frozen=True):
    """getAssetsByOwner. page: from 1, of `limit` mints each. commitment: empty is the node's default, finalized."""

    owner: str
    page: int
    limit: int
    commitment: str = ""


class HistoryQuestion(msgspec.Struct, frozen=True):
    """getTransactionHistory. before, until: signatures that bound the list, as for getSignaturesForAddress."""

    address: str
    limit: int
    commitment: str
    before: str | None = None
    until: str | None = None


class RaceQuestion(msgspec.Struct, frozen=True):
    """sendAndConfirm. transaction: base64 of a fully signed one. preflight: commitment to simulate at; None: do not."""

    transaction: str
    preflight: str | None


class SmartSendQuestion(msgspec.Struct, frozen=True):
    """sendSmartTransaction, with a transaction as above. simulate: whether to do that first."""

    transaction: str
    simulate: bool


class SendStatusQuestion(msgspec.Struct, frozen=True):
    """getSendStatus. signature: base58."""

    signature: str


class BundleQuestion(msgspec.Struct, frozen=True):
    """sendBundle. transactions: base64, each fully signed, in the order in which they execute."""

    transactions: tuple[str, ...]


class RelayedSendQuestion(msgspec.Struct, frozen=True):
    """One transaction, in base64, through the block engine. bundle_only: it must not land other than as a bundle."""

    transaction: str
    bundle_only: bool


class BundleStatusQuestion(msgspec.Struct, frozen=True):
    """The states of these bundles."""

    bundle_ids: tuple[str, ...]


class SnipeQuestion(msgspec.Struct, frozen=True):
    """executeSnipe. mint: base58; budget_lamports: above zero; slippage_bps: 0 to 10,000."""

    mint: str
    budget_lamports: int
    slippage_bps: int
    priority_fee_micro_lamports: int


class SellQuestion(msgspec.Struct, frozen=True):
    """executeSell, as above. tokens: base units, above zero."""

    mint: str
    tokens: int
    slippage_bps: int
    priority_fee_micro_lamports: int


class BulkQuestion(msgspec.Struct, frozen=True):
    """A bulk look-up of these addresses, owners or signatures, each once, at one commitment."""

    items: tuple[str, ...]
    commitment: str = "finalized"


Question = (
    FeeQuestion
    | EstimateQuestion
    | AssetsQuestion
    | HistoryQuestion
    | BulkQuestion
    | RaceQuestion
    | SmartSendQuestion
    | SendStatusQuestion
    | BundleQuestion
    | RelayedSendQuestion
    | BundleStatusQuestion
    | SnipeQuestion
    | SellQuestion
)


def encoded(question: Question) -> bytes:
    return ENCODER.encode(question)
