"""What an account carries over a cut: one line that covers all of it, and the hashes that receipts need."""

import msgspec

from actors.accounts.months.carried import COLUMNS, Carried, FactsDigest, carried_of, pairs_text
from actors.accounts.recount import Recount
from tests.accounts.making import ALICE, BOB
from tests.accounts.months.making import Chain


def carried(calls: int = 5) -> tuple[Carried, Chain]:
    chain = Chain(ALICE)
    recount = Recount(ALICE)
    for number in range(calls):
        recount.feed(chain.grow(1_000 + number, key=number % 3), chain.hashes[-1])
    assert recount.faults == []
    return recount.carried(), chain


def test_entries_make_what_is_carried() -> None:
    """Batches, consumption, and what each named key has paid; and from there a chain goes on as if it had never
    ended."""
    end, chain = carried()
    assert (end.batches, end.spent, end.consumed, end.last_batch) == ("1:996", "1:2 2:1", 4, 1)
    assert end.is_chained() and end.hash == chain.hashes[5] and end.before == chain.hashes[4]
    whole, rest = Recount(ALICE), Recount(ALICE)
    for entry, hash_ in zip(chain.entries, chain.hashes[1:], strict=True):
        whole.feed(entry, hash_)
    rest.resume(end)
    entry = chain.grow(2_000, key=2)
    for each in (whole, rest):
        each.feed(entry, chain.hashes[-1])
    assert whole.carried() == rest.carried() and rest.faults == []


def test_a_row_is_read_as_it_was_written() -> None:
    end, _ = carried()
    assert carried_of(end.record()) == end and len(end.record()) == len(COLUMNS.split(", "))


def test_each_change_changes_the_line_or_breaks_the_chain() -> None:
    end, _ = carried()
    others = [
        end._replace(**{name: value + 1 if isinstance(value, int) else value + value[:1]})
        for name, value in end._asdict().items()
        if name not in ("entry", "tail")
    ]
    others += [end._replace(tail=b"t" * 32), end._replace(entry=msgspec.structs.replace(end.entry, balance=1))]
    for other in others:
        assert other.line() != end.line() or not other.is_chained(), other


def test_hashes_of_the_tail_are_numbered_backwards_from_the_entry() -> None:
    end, chain = carried()
    assert end.hashes() == {5: chain.hashes[5]}
    tailed = end._replace(tail=chain.hashes[3] + chain.hashes[4])
    assert tailed.hashes() == {number: chain.hashes[number] for number in (3, 4, 5)}


def test_a_broken_carry_is_a_fault_of_its_account() -> None:
    end, _ = carried()
    for broken in (end._replace(batches="1:1"), end._replace(batches="x"), end._replace(before=b"b" * 32)):
        recount = Recount(ALICE)
        recount.resume(broken)
        assert recount.faults, broken


def test_facts_are_digested_one_by_one() -> None:
    _, chain = carried()
    first, second = FactsDigest(), FactsDigest()
    first.add(ALICE, chain.entries[0], chain.hashes[1])
    second.add(BOB, chain.entries[0], chain.hashes[1])
    assert first.digest() != second.digest() != FactsDigest().digest()
    assert pairs_text({2: 5, 1: 0, 10: -3}) == "2:5 10:-3"
