"""Running transactions as if for good, and leaving no trace.

Implements: transactions run one after the other on the accounts as they were at one slot, each on what those before it
left, by the very code that lands them; at the end every account is put back. How transactions are simulated, and how
a block engine knows beforehand whether all of a bundle would succeed.
The VM is changed meanwhile, so nothing may wait inside. Not here: results in a client's form (simulation.py).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from solders.account import Account
from solders.message import MessageV0
from solders.pubkey import Pubkey

from actors.devnode.chain import nonces
from actors.devnode.chain.chain import Chain
from actors.devnode.encoding.wire import Decoded
from actors.devnode.execution.execution import Execution, LoadedKeys, Refused, load_keys, run


class Rehearsal:
    """Made by `rehearsing`."""

    def __init__(self, chain: Chain, slot: int) -> None:
        self._chain, self._slot = chain, slot
        self._is_now = slot >= chain.levels.building.slot
        self._next_nonce = nonces.durable_nonce(chain.blockhashes.latest().blockhash)
        self._held: dict[Pubkey, Account | None] = {}  # What the VM held before it was touched.

    def read(self, pubkey: Pubkey) -> Account | None:
        """The account at this point of the rehearsal."""
        self._bring((pubkey,))
        return self._chain.vm.account(pubkey)

    def keys(self, decoded: Decoded) -> LoadedKeys:
        if isinstance(decoded.message, MessageV0):
            self._bring(lookup.account_key for lookup in decoded.message.address_table_lookups)
        return load_keys(decoded, self._chain.vm.account)

    def read_all(self, decoded: Decoded) -> None:
        """From here on the VM holds the slot's contents of every account of the transaction."""
        if not self._is_now:
            self._bring(self.keys(decoded).all)

    def run(self, decoded: Decoded, verify_signatures: bool) -> Execution | Refused:
        """What a run would do now; what it changes stays until the end of the rehearsal. Blockhash, nonce and
        duplicates are not looked at."""
        keys = self.keys(decoded)
        self._bring(keys.all)
        vm = self._chain.vm
        for index in keys.writable:
            pubkey = keys.all[index]
            if pubkey not in self._held:
                self._held[pubkey] = vm.account(pubkey)
        return run(vm, decoded, verify_signatures, self._next_nonce)

    def _bring(self, pubkeys: Iterable[Pubkey]) -> None:
        """Give the VM the slot's contents. A program that changed since stays as it is: putting programs back costs
        a recompile for no caller's benefit."""
        if self._is_now:
            return
        chain = self._chain
        for pubkey in chain.history.changed_among(pubkeys, self._slot):
            if pubkey in self._held:
                continue
            account = chain.vm.account(pubkey)
            if account is None or not account.executable:
                self._held[pubkey] = account
                chain.vm.put(pubkey, chain.history.as_of(pubkey, self._slot))

    def put_back(self) -> None:
        """All of it, changed or not: setting an account costs less than comparing two. Programs last: the VM compiles
        one when it is set, from the data account that must be there by then."""
        for programs in (False, True):
            for pubkey, held in self._held.items():
                if (held is not None and held.executable) == programs:
                    self._chain.vm.put(pubkey, held)


@contextmanager
def rehearsing(chain: Chain, slot: int) -> Iterator[Rehearsal]:
    """slot: at the end of which slot the accounts are taken; the one being built means as they are now."""
    rehearsal = Rehearsal(chain, slot)
    try:
        yield rehearsal
    finally:
        rehearsal.put_back()
