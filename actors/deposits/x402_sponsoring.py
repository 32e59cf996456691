"""Whose network fee the sponsor pays: how many payments that fail on the chain each payer may cost it.

Implements: hostile inputs 24 and 52 (payments that simulate well and fail on the chain cost their own wallets the right
to sponsored payments, and nobody else's).
Pure: counts come in, a refusal goes out. The counting is the store's.

A payer can always make a payment fail after its simulation: it moves the money away first. The sponsor then loses the
fee. Wallets and token accounts cost nothing to make, and the same coin can be moved from one to the next for the price
of a transaction, so neither a new wallet nor the money in it is a sign of anything. Only money that arrived here is:

- One payment at a time: a wallet, and a token account, has at most one sponsored payment that has not landed yet (the
  store's claim enforces it). So a wallet never loses the sponsor more than one fee before the loss is counted.
- A wallet, and the token account it pays from, may have at most as many failed payments as the wallet has payments that
  landed, of those that the store remembers (30 days). Whoever fails more often pays its own fees.
- Newcomers, wallets of which no payment has landed, share two budgets of failures in an hour: a small one for each
  client address, and one for all of them. When a budget is spent, its newcomers pay their own fees until the failures
  are an hour old; wallets that have paid before go on. In the budget of an address, payments under way count as failed
  until they have landed. In that of all newcomers they do not: payments that stay under way cost their sender nothing,
  and sixty of them would shut everybody else out.
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
    """What the store knows of a payer and of all newcomers.

    landed: counted no further than to lost + 1, where it stops mattering. newcomers: failed payments of all newcomers
    in the last hour. at_address: those of newcomers behind this client address, and their payments under way.
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
    """None: the sponsor pays. claimed: the payment in question is already among those counted."""
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
    """The address under which a newcomer's payment is counted; empty where it does not tell clients apart.

    name: an address, or an IPv6 network, as identity.addresses counts requests. A private address, or that of this
    machine, may be a proxy in front of everybody: its budget would be everybody's.
    """
    try:
        told_apart = ip_network(name).is_global if "/" in name else ip_address(name).is_global
    except ValueError:
        return ""
    return name if told_apart else ""
