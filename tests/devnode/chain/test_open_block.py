from solders.hash import Hash

from devnode.chain.block_space import BlockSpace, SpaceLimits
from devnode.chain.open_block import OpenBlock
from devnode.records.commitment import Sealed
from tests.devnode.local_node import LocalNode


def test_the_blockhash_depends_on_salt_parent_slot_and_transactions(local: LocalNode) -> None:
    record = local.land(local.transfer(local.wallet(), local.keys.faucet.pubkey(), 5))
    parent = Hash.new_unique()

    def blockhash(salt: bytes = b"1", slot: int = 5, parent: Hash = parent, filled: bool = True) -> Hash:
        block = OpenBlock(4, parent, 99, BlockSpace(SpaceLimits()), [record] if filled else [])
        sealed, found = block.sealed(Sealed(slot, 2), salt)
        assert sealed.blockhash == str(found) and sealed.previous_blockhash == str(parent)
        assert (sealed.slot, sealed.height, sealed.parent_slot, sealed.unix_time) == (slot, 2, 4, 99)
        return found

    others = [blockhash(b"2"), blockhash(slot=6), blockhash(parent=Hash.new_unique()), blockhash(filled=False)]
    assert blockhash() == blockhash() and blockhash() not in others and len(set(others)) == 4
