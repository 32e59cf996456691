"""Sets the price lists of accounts, and counts the accounts of each list.

Implements: decisions, "Price lists". A shell. A reply arrives when the change is durable. The caller has checked that
the settings have the list: the owner knows only names.
"""

import asyncio
import logging
from typing import Any

from actors.accounts.activations import Activations
from actors.accounts.api import AccountState, Command, OfAccount, OwnerReply
from actors.accounts.directory import DirectoryStore
from actors.accounts.price_list import PUBLIC_WORD, PriceListSet, mistake_in_name
from actors.accounts.reading_commands import account_state
from actors.units import base58_text

logger = logging.getLogger(__name__)


class SetPriceList(OfAccount[AccountState], frozen=True):
    """Operator: let the account pay by this list from its next hold on. name: PUBLIC_PRICES: the public prices."""

    name: str


class CountPriceLists(Command[dict[str, int]], frozen=True):
    """Operator: count the accounts of each price list."""


class PriceListCommands:
    def __init__(self, activations: Activations, directory: DirectoryStore) -> None:
        self._activations, self._directory = activations, directory

    async def answer(self, command: SetPriceList | CountPriceLists) -> OwnerReply[Any]:
        if isinstance(command, CountPriceLists):
            return OwnerReply(await self._directory.price_lists())
        account = await self._activations.account_for(command.pubkey, mistake_in_name(command.name))
        if isinstance(account, OwnerReply):
            return account
        if command.name == account.price_list:  # It was set before, perhaps by an earlier copy of this command.
            await self._activations.until_written(account.pubkey)
            return OwnerReply(account_state(account))
        written = self._activations.record(account, PriceListSet(command.name))
        reply: OwnerReply[Any] = OwnerReply(account_state(account))
        logger.warning("account %s: price list %s", base58_text(account.pubkey), command.name or PUBLIC_WORD)
        await asyncio.shield(written)
        return reply
