"""Replaces an account's API key: an account has one API key, so the former key is refused from then on.

Implements: interface, "API key" (legacy keys). A shell.
"""

import asyncio
from typing import Any

from actors.accounts.account import Account
from actors.accounts.activations import Activations
from actors.accounts.api import ImportKey, OwnerReply, refused
from actors.accounts.core import decide_key
from actors.accounts.store import AccountStore
from actors.errors import Err

_TAKEN = "this key is another account's; one key opens one account"


class ApiKeys:
    def __init__(self, activations: Activations, store: AccountStore) -> None:
        self._activations, self._store = activations, store

    async def replace(self, account: Account, key_hash: bytes, key_prefix: str) -> None:
        """Replace the API key; returns when the new key is durable."""
        earlier = account.profile.key_hash
        event = decide_key(account, key_hash, key_prefix, self._activations.moment())
        written = self._activations.record(account, event)
        self._activations.key_changed(account, earlier)
        await asyncio.shield(written)

    async def import_key(self, command: ImportKey) -> Account | OwnerReply[Any]:
        """Return the account with its imported key. Importing the same key again changes nothing.

        A key of another account is refused here, because the database would refuse the whole group of writes. Imports
        of one key run one after the other, also at different owners.
        """
        account = await self._activations.load(command.pubkey)
        if account is None:
            return refused(Err.ACCOUNT_NOT_FOUND)
        async with self._store.key_imports.turn(command.key_hash) as holder:
            in_memory = self._activations.by_key.get(command.key_hash, account)
            if holder not in (None, command.pubkey) or in_memory is not account:
                return refused(Err.INVALID_REQUEST, _TAKEN)
            self._activations.check_current(account)
            if account.profile.key_hash != command.key_hash:
                await self.replace(account, command.key_hash, command.key_prefix)
        return account
