"""The chain through the facts of a shard: what was changed, removed or written anew shows."""

from collections.abc import Sequence

import pytest

from actors.accounts.facts import (
    FAULTS_MAX,
    REFERRALS,
    ChainLink,
    Fact,
    FactKind,
    ShardRecount,
    chain,
    differences,
    genesis,
)
from actors.units import routing_bytes, virtual_shard
from tests.accounts.making import ALICE, BOB

SHARD = virtual_shard(routing_bytes(ALICE))


def chained(bodies: Sequence[str], pubkey: bytes = ALICE, shard: int = SHARD) -> list[tuple[Fact, bytes]]:
    head, links = genesis(shard), []
    for seq, body in enumerate(bodies, 1):
        fact = Fact(shard, seq, FactKind.BATCH, pubkey, body)
        head = chain(head, fact)
        links.append((fact, head))
    return links


def faults_of(
    links: list[tuple[Fact, bytes]], newest: ChainLink, then: ChainLink | None = None, shard: int = SHARD
) -> list[str]:
    recount = ShardRecount(shard, then)
    for fact, stored_hash in links:
        recount.feed(fact, stored_hash)
    return recount.close(newest)


def test_a_chain_as_it_was_written_has_no_faults() -> None:
    links = chained(["one", "two", "three"])
    newest = ChainLink(3, links[2][1])
    assert faults_of(links, newest) == []
    assert faults_of(links, newest, ChainLink(2, links[1][1])) == []
    assert faults_of([], ChainLink(0, genesis(SHARD))) == []


@pytest.mark.parametrize("at", [0, 1])
def test_a_changed_fact_breaks_the_chain(at: int) -> None:
    links = chained(["one", "two", "three"])
    links[at] = (links[at][0]._replace(body="other"), links[at][1])
    (fault,) = faults_of(links, ChainLink(3, links[2][1]))
    assert f"fact {at + 1} breaks the hash chain" in fault


def test_a_fact_that_was_removed_is_missed() -> None:
    """In the middle by its number, at the end by the row that names the newest one."""
    links = chained(["one", "two", "three"])
    newest = ChainLink(3, links[2][1])
    assert any("fact 3 follows fact 1" in fault for fault in faults_of([links[0], links[2]], newest))
    assert any("said to be number 3, and is number 2" in fault for fault in faults_of(links[:2], newest))


def test_a_chain_written_anew_shows_against_an_earlier_link() -> None:
    """It agrees with itself, and not with the checkpoint."""
    before, after = chained(["one", "two"]), chained(["one", "other"])
    newest, then = ChainLink(2, after[1][1]), ChainLink(2, before[1][1])
    assert faults_of(after, newest) == []
    assert any("another hash than at the checkpoint" in fault for fault in faults_of(after, newest, then))
    shorter = faults_of(after[:1], ChainLink(1, after[0][1]), then)
    assert shorter == ["it had 2 facts at the checkpoint, and has 1"]


def test_facts_of_another_shards_account_are_faults() -> None:
    """An account's facts stand in one chain, and those of referral codes in none of an account."""
    assert virtual_shard(routing_bytes(BOB)) != SHARD
    for pubkey in (BOB, b""):
        links = chained(["one"], pubkey)
        assert faults_of(links, ChainLink(1, links[0][1])) == ["fact 1 is about an account of another shard"]
    codes = chained(["one"], b"", REFERRALS)
    assert faults_of(codes, ChainLink(1, codes[0][1]), shard=REFERRALS) == []


def test_faults_of_one_shard_are_bounded() -> None:
    links = [(fact, b"") for fact, _ in chained(["any"] * 50)]
    assert len(faults_of(links, ChainLink(50, b""))) == FAULTS_MAX


def test_each_field_that_differs_is_named() -> None:
    """With both values, so that an operator sees what was changed into what."""
    told = {"status": "suspended", "concurrency": None}
    assert differences({"status": "active", "concurrency": None}, told, "the account") == [
        "the account: status is 'active', by the facts 'suspended'"
    ]
    assert differences(None, told, "the account") == ["the account is gone: the facts have it"]
    assert differences(told, None, "the account") == ["the account is there, and no fact tells of it"]
