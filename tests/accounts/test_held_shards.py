"""Which shards an owner serves while they come and go."""

from actors.accounts.held_shards import HeldShards
from actors.units import VirtualShard, shard_of
from tests.accounts.making import ALICE

A, B, C = (VirtualShard(number) for number in (1, 2, 3))


def test_what_leaves_is_finished_and_nothing_new_begins() -> None:
    held = HeldShards(4, [B, A])
    assert (held.index, held.all) == (4, (A, B))
    held.leave([A])
    assert held.serves(A) and not held.admits(A) and held.admits(B)
    held.stay([A])
    assert held.admits(A)
    held.leave([A])
    held.drop([A])
    assert held.all == (B,) and not held.serves(A) and not held.leaving


def test_what_comes_is_written_before_it_is_served() -> None:
    held = HeldShards(0, [A])
    held.take([C])
    assert held.all == (A, C) and not held.serves(C) and held.missing([A, C]) == [C]
    held.serve([C])
    assert held.admits(C) and held.missing([A, C]) == []


def test_an_account_is_had_with_its_shard() -> None:
    assert HeldShards(0, [shard_of(ALICE)]).has_account(ALICE)
    assert not HeldShards(0, []).has_account(ALICE)
