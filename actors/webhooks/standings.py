"""Asks the owners of accounts which of them pay for deliveries now.

Implements: threat 68 (accounts that do not pay get no deliveries and hold no places). A shell without state.
"""

from collections.abc import Collection, Mapping

from actors.accounts.api import AccountStanding, OwnersClient, ReadStanding
from actors.calls import ProvenProof
from actors.errors import Err, Refusal

_AT_ONCE_MAX = 1_000
_UNKNOWN = (Err.ACCOUNT_NOT_FOUND.name, Err.PAYMENT_REQUIRED.name)
SUSPENDED = Refusal(Err.METHOD_NOT_ALLOWED, "this account is suspended")
AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the owner of this account does not answer at the moment")


class Standings:
    def __init__(self, accounts: OwnersClient) -> None:
        self._accounts = accounts

    async def of(self, pubkeys: Collection[bytes]) -> Mapping[bytes, AccountStanding]:
        """Return how these accounts stand. One whose owner does not answer is missing."""
        asked, found = list(dict.fromkeys(pubkeys)), dict[bytes, AccountStanding]()
        for start in range(0, len(asked), _AT_ONCE_MAX):
            part = asked[start : start + _AT_ONCE_MAX]
            replies = await self._accounts.ask_many([ReadStanding(ProvenProof(pubkey)) for pubkey in part])
            for pubkey, reply in zip(part, replies, strict=True):
                if reply.value is not None:
                    found[pubkey] = reply.value
                elif reply.refusal in _UNKNOWN:  # The account never had a credit.
                    found[pubkey] = AccountStanding(pubkey, 0, is_active=True)
        return found

    async def one(self, pubkey: bytes) -> AccountStanding | Refusal:
        """Return how this account stands, or a refusal: it is suspended, or its standing is unknown."""
        standing = (await self.of([pubkey])).get(pubkey)
        if standing is None:
            return AWAY
        return standing if standing.is_active else SUSPENDED
