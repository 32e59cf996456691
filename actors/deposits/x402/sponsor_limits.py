"""The limits on payments whose network fee the sponsor pays: how many may fail on the chain for each payer.

Implements: threats 24 and 52 (a wallet whose payments pass the simulation and fail on the chain loses its right
to sponsored payments; other wallets keep theirs).
Pure: takes counts and returns a refusal. The store counts.

A payer can always make a payment fail after its simulation: it moves the money away first. The sponsor then loses the
fee. Wallets and token accounts cost nothing to make, and the same money can be moved from one to the next for the price
of a transaction. So neither a wallet nor the money in it shows an honest payer; only payments that landed here do:

- One payment at a time: a wallet, and a token account, has at most one sponsored payment that has not landed yet (the
  store's claim enforces it). So a wallet costs the sponsor at most one fee before the loss is counted.
- A wallet and the token account it pays from may have at most as many failed payments as the wallet has payments that
  landed, of those that the store keeps (30 days). A wallet that fails more often must pay its own fees.
- Newcomers are wallets without a landed payment. They share two budgets of failures in an hour: a small one for each
  client address, and one for all newcomers. When a budget is spent, its newcomers pay their own fees until the failures
  are an hour old; wallets that have paid before are not affected. In the budget of an address, a payment under way
  counts as failed until it has landed. In the budget of all newcomers it does not: payments that stay under way cost
  their sender nothing, and sixty of them would stop all other newcomers.
"""

from dataclasses import dataclass
from enum import Enum, unique
from ipaddress import ip_address, ip_network


@dataclass(frozen=True, slots=True)
class Budgets:
    attempts_per_minute: int  # Sponsored payments of one wallet.
    failures_per_hour: int  # Of all newcomers.
    failures_per_address_per_hour: int  # Of the newcomers behind one client address.


@dataclass(frozen=True, slots=True)
class Standing:
    """The store's counts for a payer and for all newcomers.

    landed: counted up to lost + 1, because more changes nothing. newcomers: failed payments of all newcomers in the
    last hour. at_address: failed payments of newcomers behind this client address, and their payments under way.
    """

    attempts: int  # Of this wallet in the last minute.
    lost: int  # Failed payments of this wallet or of its token account.
    landed: int
    newcomers: int
    at_address: int

    @property
    def is_newcomer(self) -> bool:
        return self.landed == 0


@unique
class Unsponsored(Enum):
    FAILED_TOO_OFTEN = "failed too often"
    TOO_MANY_ATTEMPTS = "too many attempts"
    ADDRESS_SPENT = "address spent"
    BUDGET_SPENT = "budget spent"


def refusal(standing: Standing, budgets: Budgets, claimed: bool) -> Unsponsored | None:
    """Return the reason why the sponsor does not pay, or None. claimed: the counts include the payment in question."""
    own = 1 if claimed else 0
    if standing.lost > standing.landed:
        return Unsponsored.FAILED_TOO_OFTEN
    if standing.attempts - own >= budgets.attempts_per_minute:
        return Unsponsored.TOO_MANY_ATTEMPTS
    if not standing.is_newcomer:
        return None
    if standing.at_address - own >= budgets.failures_per_address_per_hour:
        return Unsponsored.ADDRESS_SPENT
    return Unsponsored.BUDGET_SPENT if standing.newcomers >= budgets.failures_per_hour else None


def telling_address(name: str) -> str:
    """Return the address under which a newcomer's payment is counted; empty where many clients may share it.

    name: an address or an IPv6 network, as identity.client_addresses counts requests. A private address, or one of this
    machine, may be a proxy: all clients behind it would share one budget.
    """
    try:
        told_apart = ip_network(name).is_global if "/" in name else ip_address(name).is_global
    except ValueError:
        return ""
    return name if told_apart else ""
