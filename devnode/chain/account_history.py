"""Past account contents, for the slots between the root and the slot being built.

Implements: reads at `confirmed` and `finalized` see the accounts as they were at that slot. Kept as an undo log: for
each slot, the contents that each written account had before it.
Pure: no clock, no I/O. Not here: current contents (the VM has those).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from solders.account import Account
from solders.pubkey import Pubkey


@dataclass(slots=True)
class AccountHistory:
    _before: dict[int, dict[Pubkey, Account | None]] = field(default_factory=dict)
    _slots_of: dict[Pubkey, deque[int]] = field(default_factory=dict)

    def note(self, slot: int, pubkey: Pubkey, before: Account | None) -> None:
        """Record the contents before a write; only the first write of an account in a slot counts."""
        written = self._before.setdefault(slot, {})
        if pubkey in written:
            return
        written[pubkey] = before
        slots = self._slots_of.get(pubkey)
        if slots is None:
            self._slots_of[pubkey] = deque((slot,))
        else:
            assert slots[-1] < slot, (slots[-1], slot)
            slots.append(slot)

    def changed_after(self, pubkey: Pubkey, slot: int) -> bool:
        slots = self._slots_of.get(pubkey)
        return slots is not None and slots[-1] > slot

    def changed_among(self, pubkeys: Iterable[Pubkey], slot: int) -> list[Pubkey]:
        """The accounts among `pubkeys` that changed after the slot."""
        return [pubkey for pubkey in pubkeys if self.changed_after(pubkey, slot)]

    def as_of(self, pubkey: Pubkey, slot: int) -> Account | None:
        """The account's contents at the end of the slot. Call it only when `changed_after` is true."""
        for written in self._slots_of[pubkey]:
            if written > slot:
                return self._before[written][pubkey]
        raise AssertionError((pubkey, slot))

    def overlay(self, slot: int) -> dict[Pubkey, Account | None]:
        """Every account that changed after the slot, with its contents at the end of the slot."""
        found: dict[Pubkey, Account | None] = {}
        for written in sorted(self._before):
            if written > slot:
                for pubkey, before in self._before[written].items():
                    found.setdefault(pubkey, before)
        return found

    def written_in(self, slot: int) -> list[Pubkey]:
        return list(self._before.get(slot, ()))

    def abandon(self, first_slot: int) -> dict[Pubkey, Account | None]:
        """Forget this slot and all later ones; returns the contents their accounts had before it."""
        held = self.overlay(first_slot - 1)
        for written in [known for known in self._before if known >= first_slot]:
            for pubkey in self._before.pop(written):
                slots = self._slots_of[pubkey]
                slots.remove(written)
                if not slots:
                    del self._slots_of[pubkey]
        return held

    def forget_up_to(self, slot: int) -> None:
        """Drop the contents that only reads of earlier slots need."""
        for written in [known for known in self._before if known <= slot]:
            for pubkey in self._before.pop(written):
                slots = self._slots_of[pubkey]
                assert slots[0] == written, (slots[0], written)
                slots.popleft()
                if not slots:
                    del self._slots_of[pubkey]
