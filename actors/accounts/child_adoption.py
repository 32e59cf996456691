"""Takes a child key up when it is presented for the first time: from then on it is a key of its account as others are.

Implements: decisions, "Named keys". A shell: child_keys.py checks. A child gets its number before its first call
begins, and durably: a successor that did not know the number could hold nobody to a budget.
"""

import asyncio
import logging

import msgspec

from actors.accounts.account import Account, NamedKeySet
from actors.accounts.activations import Activations
from actors.accounts.child_keys import ChildBlock, read_child
from actors.accounts.named_keys import KeyProfile, NamedKey, may_use, write_limits
from actors.calls import KeyProof
from actors.identity.credentials import key_prefix
from actors.units import routing_bytes

logger = logging.getLogger(__name__)


_REFUSED = b"child"  # Before the hash of a text: its names among what is unknown.


class ChildAdoption:
    def __init__(self, activations: Activations) -> None:
        self._activations = activations

    async def adopt(self, proof: KeyProof) -> Account | None:
        """The account of this child, which is a key of it now. None: it is none of ours, or what it was made from is no
        good any more; that is remembered for a while. Raises OwnerUnavailable."""
        name = _REFUSED + proof.key_hash
        if self._activations.is_unknown(name):
            return None
        account = await self._adopt(proof)
        if account is None:
            self._activations.remember_unknown(name)
        return account

    async def _adopt(self, proof: KeyProof) -> Account | None:
        child = read_child(proof.child)
        if child is None:
            return None
        account = await self._activations.load_by_root(child.root)
        if account is None or routing_bytes(account.pubkey) != proof.routing:
            return None
        # The turn: nothing is awaited from here until all blocks are recorded.
        self._activations.check_current(account)
        root = account.keys.by_root.get(child.root)
        now = self._activations.moment().wall_ms // 1000
        if root is None or not may_use((root,), proof, now):
            return None
        known = account.keys.by_block.get(child.last_id)
        if known is None and not account.keys.has_room(root, 1):
            return None  # Before any signature is checked.
        blocks: list[ChildBlock] = []
        for block in child.blocks():
            if block is None:
                return None
            blocks.append(block)
        fresh = sum(block.id not in account.keys.by_block for block in blocks)
        if fresh and not account.keys.has_room(root, fresh):
            logger.warning("key %d of account %s gets no more children", root.profile.number, account.pubkey.hex())
            return None
        if known is not None and known.profile.key_hash not in (proof.key_hash, blocks[-1].id):
            return None  # Another spelling of the same key: its first one stands.
        written = self._record(account, root, blocks, proof, now)
        if written is not None:
            await asyncio.shield(written)
        else:  # Another request takes it up at the same time.
            await self._activations.until_written(account.pubkey)
        self._activations.know_key(account, proof.key_hash)
        return account

    def _record(
        self, account: Account, parent: NamedKey, blocks: list[ChildBlock], proof: KeyProof, now: int
    ) -> "asyncio.Future[None] | None":
        written = None
        for place, block in enumerate(blocks):
            key, is_last = account.keys.by_block.get(block.id), place == len(blocks) - 1
            # One between is known by its block until somebody presents it.
            key_hash = proof.key_hash if is_last else block.id
            if key is None:
                profile = KeyProfile(
                    account.keys.last_number + 1,
                    block.limits.name,
                    key_hash,
                    key_prefix(proof.child) if is_last else "",
                    write_limits(block.limits),
                    now,
                    parent=parent.profile.number,
                    public=block.public,
                    signed_by=block.signed_by,
                    block=block.id,
                )
                written = self._activations.record(account, NamedKeySet(profile))
            elif is_last and key.profile.key_hash == block.id:
                presented = msgspec.structs.replace(key.profile, key_hash=key_hash, key_prefix=key_prefix(proof.child))
                written = self._activations.record(account, NamedKeySet(presented))
            parent = account.keys.by_block[block.id]
        return written
