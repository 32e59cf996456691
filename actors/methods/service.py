"""Methods of the service itself, and those that it lists but does not offer. Implements: interface, "Method classes and
credits". Pure data."""

from actors.methods import results
from actors.methods.entries import own, refused, takes
from actors.methods.prices import Availability, MethodClass

_ARCHIVE = "getEnrichedTransaction explainTransaction getConfirmedTransaction getConfirmedSignaturesForAddress2"
_DENIED = """
getProgramAccounts getSupply getStakeActivation getTokenLargestAccounts getTokenAccountsByDelegate getInflationReward
"""

METHODS = (
    own(
        "rpc.discover",
        MethodClass.DISCOVERY,
        "Returns the OpenRPC document of this service.",
        "Use it to read the parameters of every method; it is large.",
        results.OPENRPC,
        rule=takes(()),
    ),
    *refused(_ARCHIVE, MethodClass.ARCHIVE_HISTORY, Availability.ARCHIVE),
    *refused(_DENIED, MethodClass.DENIED, Availability.DENIED),
    *refused("requestAirdrop", MethodClass.DENIED, Availability.FORBIDDEN),
)
