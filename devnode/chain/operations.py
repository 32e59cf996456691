"""The operator's changes of a whole chain: a jump to a later slot, and the return to a snapshot.

Implements: the changes themselves, in one turn each. Synchronous.
Not here: when a jump may happen (pacemaker.py), what a snapshot keeps (snapshots.py).
"""

from devnode.chain.chain import Chain
from devnode.journal.journal import SealedSlot
from devnode.records.blockhashes import stored_value, with_value


def warp(chain: Chain, slot: int, unix_time: int, now_seconds: float) -> SealedSlot:
    """End the slot being built and open a later one, as if a block had been built in every slot between them.

    The block being sealed takes the height that the last of those blocks would have, so blockhashes expire as they
    would have, and its own, the newest, can be used. Slots between are not announced: they have no blocks."""
    between = slot - chain.levels.building.slot - 1
    assert between >= 0, (slot, chain.levels.building)
    chain.levels.pass_heights(between)
    return chain.seal(unix_time, now_seconds, between, tells_skipped=False)


def return_to(chain: Chain, snapshot: int) -> int:
    """Write every account that differs from the snapshot, in the slot being built; returns their number.

    A nonce account that differs gets a new value: its old one would let a landed transaction land again.
    Raises SnapshotError."""
    differing = chain.snapshots.differing(snapshot, chain.vm.account)
    # Programs last: the VM compiles a program when it is set, and reads other accounts for it.
    for pubkey, account in sorted(differing, key=lambda entry: entry[1] is not None and entry[1].executable):
        if account is not None and stored_value(account) is not None:
            chain.place(pubkey, with_value(account, chain.next_nonce))
        else:
            chain.place(pubkey, account)
    return len(differing)
