"""Contents of subscribed accounts at the end of each slot above the root.

Implements: one notification for each account and slot, with its last contents, at every level; also for writes that
came before the subscription and reach its level after it.
Synchronous; reads the chain only in `look_back`. Not here: subscribers (registry.py).
"""

from collections.abc import Mapping

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.chain.chain import Chain
from devnode.pubsub.topics import AccountTopic, ProgramTopic
from devnode.records.commitment import Commitment

_NOTHING: Mapping[Pubkey, Account | None] = {}


class SlotWrites:
    def __init__(self) -> None:
        self._slots: dict[int, dict[Pubkey, Account | None]] = {}

    def note(self, slot: int, pubkey: Pubkey, account: Account | None, is_wanted: bool) -> None:
        """Record a write if it is wanted, or if an earlier write of the slot is recorded: the last one counts."""
        written = self._slots.get(slot)
        if is_wanted:
            self._slots.setdefault(slot, {})[pubkey] = account
        elif written is not None and pubkey in written:
            written[pubkey] = account

    def at(self, slot: int) -> Mapping[Pubkey, Account | None]:
        return self._slots.get(slot, _NOTHING)

    def look_back(self, chain: Chain, topic: AccountTopic | ProgramTopic) -> None:
        """Record the writes for a new topic in all slots that have not reached its level yet."""
        building = chain.levels.building.slot
        is_processed = topic.level is Commitment.PROCESSED
        first = building if is_processed else chain.levels.at(topic.level).slot + 1
        for slot in range(first, building + 1):
            for pubkey in chain.history.written_in(slot):
                if isinstance(topic, AccountTopic) and pubkey != topic.pubkey:
                    continue
                account = _at_end_of(chain, slot, pubkey)
                if isinstance(topic, AccountTopic) or (account is not None and account.owner == topic.program):
                    self.note(slot, pubkey, account, is_wanted=True)

    def forget(self, slot: int) -> None:
        """Drop the writes of a slot on a lost fork."""
        self._slots.pop(slot, None)

    def forget_up_to(self, slot: int) -> None:
        for known in [known for known in self._slots if known <= slot]:
            del self._slots[known]

    def clear(self) -> None:
        self._slots.clear()


def _at_end_of(chain: Chain, slot: int, pubkey: Pubkey) -> Account | None:
    history = chain.history
    return history.as_of(pubkey, slot) if history.changed_after(pubkey, slot) else chain.vm.account(pubkey)
