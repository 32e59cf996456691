"""The parts of the store of accounts, each a port of its own.

Not here: the accounts themselves (store.py).
"""

from typing import Protocol

from actors.accounts.bills import BillStore
from actors.accounts.directory import DirectoryStore
from actors.accounts.holders_store import HoldersStore
from actors.accounts.key_imports import KeyImports
from actors.accounts.months.cuts import CutsStore
from actors.accounts.outbox import Outbox
from actors.accounts.seals_store import SealsStore
from actors.accounts.undelivered_store import UndeliveredStore
from actors.accounts.usage import UsageStore


class StoreParts(Protocol):
    @property
    def outbox(self) -> Outbox: ...

    @property
    def usage(self) -> UsageStore: ...

    @property
    def undelivered(self) -> UndeliveredStore: ...

    @property
    def key_imports(self) -> KeyImports: ...

    @property
    def holders(self) -> HoldersStore: ...

    @property
    def seals(self) -> SealsStore: ...

    @property
    def bills(self) -> BillStore: ...

    @property
    def cuts(self) -> CutsStore: ...

    @property
    def directory(self) -> DirectoryStore: ...
