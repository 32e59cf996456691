"""Runs transactions on the VM and undoes all of them at the end.

Implements: transactions run one after the other on the accounts of one slot. Each sees the changes of the ones before
it, and the code that runs them is the code that lands them. At the end every account is restored. Simulations use it,
and the block engine uses it to know whether all transactions of a bundle would succeed.
The VM is changed meanwhile, so a rehearsal must not await. Not here: results in a client's form (simulation.py).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from solders.account import Account
from solders.message import MessageV0
from solders.pubkey import Pubkey

from devnode.chain.chain import Chain
from devnode.encoding.wire import Decoded
from devnode.execution.execution import Execution, LoadedKeys, Refused, load_keys, run
from devnode.records import nonces


class Rehearsal:
    """One rehearsal. Create it with `rehearsing`."""

    def __init__(self, chain: Chain, slot: int) -> None:
        self._chain, self._slot = chain, slot
        self._is_now = slot >= chain.levels.building.slot
        self._next_nonce = nonces.durable_nonce(chain.blockhashes.latest().blockhash)
        self._original: dict[Pubkey, Account | None] = {}  # Accounts of the VM before their first change.

    def read(self, pubkey: Pubkey) -> Account | None:
        """The account at this point of the rehearsal."""
        self._load_past((pubkey,))
        return self._chain.vm.account(pubkey)

    def keys(self, decoded: Decoded) -> LoadedKeys:
        if isinstance(decoded.message, MessageV0):
            self._load_past(lookup.account_key for lookup in decoded.message.address_table_lookups)
        return load_keys(decoded, self._chain.vm.account)

    def read_all(self, decoded: Decoded) -> None:
        """Load the slot's contents of every account of the transaction into the VM."""
        if not self._is_now:
            self._load_past(self.keys(decoded).all)

    def run(self, decoded: Decoded, verify_signatures: bool) -> Execution | Refused:
        """Run one transaction; its changes stay until the end of the rehearsal. Does not check blockhash, nonce or
        duplicates."""
        keys = self.keys(decoded)
        self._load_past(keys.all)
        vm = self._chain.vm
        for index in keys.writable:
            pubkey = keys.all[index]
            if pubkey not in self._original:
                self._original[pubkey] = vm.account(pubkey)
        return run(vm, decoded, verify_signatures, self._next_nonce)

    def _load_past(self, pubkeys: Iterable[Pubkey]) -> None:
        """Load the slot's contents of these accounts into the VM. A program that changed since keeps its present
        code: setting it costs a compilation, and no caller needs the old code."""
        if self._is_now:
            return
        chain = self._chain
        for pubkey in chain.history.changed_among(pubkeys, self._slot):
            if pubkey in self._original:
                continue
            account = chain.vm.account(pubkey)
            if account is None or not account.executable:
                self._original[pubkey] = account
                chain.vm.put(pubkey, chain.history.as_of(pubkey, self._slot))

    def put_back(self) -> None:
        """Restore all accounts, changed or not: setting an account costs less than comparing two. Programs last: the
        VM compiles a program when it is set, and reads its data account for that."""
        for programs in (False, True):
            for pubkey, account in self._original.items():
                if (account is not None and account.executable) == programs:
                    self._chain.vm.put(pubkey, account)


@contextmanager
def rehearsing(chain: Chain, slot: int) -> Iterator[Rehearsal]:
    """Start a rehearsal on the accounts at the end of the slot, and undo it on exit. The slot being built means the
    present accounts."""
    rehearsal = Rehearsal(chain, slot)
    try:
        yield rehearsal
    finally:
        rehearsal.put_back()
