"""Leaves of statements are found account by account, and each entry must stand in one."""

from actors.accounts.months.leaves import LeafWalk, SignedLeaves, links_of
from actors.receipts.root_keys import ProvenKey
from actors.receipts.statements import leaf_of
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.making import KEY, Chain, statement
from tests.accounts.months.test_carried import carried

KEYS = {KEY.id: ProvenKey(KEY.id, KEY.public, 0)}


def test_leaves_are_sorted_by_account_and_number() -> None:
    """Of many accounts, of which one is in memory at a time; a statement that does not hold gives none."""
    chains = [Chain(bytes([number]) * 32) for number in range(0, 256, 5)]
    for number, chain in enumerate(chains):
        for seq in range(4):
            chain.grow(1_000 + number + seq)
    rows = [
        statement(2, 9, {c.pubkey: (3, 4) for c in chains}, chains),
        statement(1, 8, {c.pubkey: (1, 2) for c in chains}, chains),
    ]
    leaves = SignedLeaves([rows], KEYS)
    for chain in chains:
        assert [(leaf.first, leaf.last) for leaf in leaves.of(chain.pubkey)] == [(1, 2), (3, 4)]
        assert links_of(leaves.of(chain.pubkey))[1] == (4, chain.hashes[4])
    assert leaves.of(ALICE) == [] and (leaves.statements, leaves.faults) == (2, [])
    leaves.close()
    text, key, signature, packed = rows[0]
    forged = SignedLeaves([[(text.replace("at_ms 9", "at_ms 7"), key, signature, packed)]], KEYS)
    assert "not by its key" in forged.faults[0] and forged.of(chains[0].pubkey) == []
    forged.close()


def test_a_walk_names_what_no_statement_bears_out() -> None:
    """A gap, another hash, other entries below the same end; the end of the walk has the hashes of an open
    statement."""
    end, chain = carried(9)
    hashes = chain.hashes
    leaves = [leaf_of(ALICE, 1, hashes[1:4]), leaf_of(ALICE, 4, hashes[4:10])]
    walk = LeafWalk(leaves)
    assert [walk.feed(seq, hashes[seq]) for seq in range(1, 8)] == [None] * 7
    assert walk.tail(7) == b"".join(hashes[4:7])
    onward = LeafWalk(leaves, end._replace(entry=chain.entries[6], hash=hashes[7], tail=walk.tail(7)))
    assert [onward.feed(seq, hashes[seq]) for seq in (8, 9)] == [None, None] and onward.tail(9) == b""
    wrong = LeafWalk(leaves, end._replace(entry=chain.entries[6], hash=hashes[7], tail=hashes[1] + walk.tail(7)[32:]))
    assert wrong.feed(8, hashes[8]) is None and "are not those of their signed statement" in str(
        wrong.feed(9, hashes[9])
    )
    assert "another hash than in its signed statement" in str(LeafWalk(leaves).feed(3, b"x" * 32))
    assert "in no signed statement" in str(LeafWalk(leaves[:1]).feed(4, hashes[4]))
    assert "in no signed statement" in str(LeafWalk(leaves[1:]).feed(3, hashes[3]))
    assert BOB != ALICE
