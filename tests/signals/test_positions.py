"""Parts of the work: even, each transaction in one of them; positions go on, whatever was kept before."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.signals.classify import PROGRAMS
from actors.signals.positions import (
    PARTS_MAX,
    RESTORED,
    SLICES,
    WALLETS_SLICE,
    Arrangement,
    Beginning,
    Division,
    arrange,
    begin,
    floors,
    read_division,
)

_SIGNATURES_A_PART = 2_000


@settings(max_examples=25, deadline=None)
@given(parts=st.integers(1, PARTS_MAX), epoch=st.integers(1, 1 << 45), wallet=st.binary(min_size=32, max_size=32))
def test_parts_have_equal_work_within_a_fifth(parts: int, epoch: int, wallet: bytes) -> None:
    """Whatever signs: a signature's bytes are as good as random. Of one wallet here, as one program's bots sign."""
    division = Division(epoch, parts)
    shares = Counter(division.part_of(_signature(wallet, number)) for number in range(parts * _SIGNATURES_A_PART))
    assert set(shares) == set(range(parts))
    assert max(shares.values()) <= 1.2 * _SIGNATURES_A_PART and min(shares.values()) >= 0.8 * _SIGNATURES_A_PART


def _signature(wallet: bytes, number: int) -> bytes:
    return hashlib.blake2b(number.to_bytes(8, "little"), key=wallet).digest()


def test_real_signatures_are_shared_evenly_too() -> None:
    """Those of ed25519, of one key and of many."""
    one, division = Keypair(), Division(7, 4)
    made = [bytes(one.sign_message(b"%d" % number)) for number in range(4_000)]
    made += [bytes(Keypair().sign_message(b"same")) for _ in range(4_000)]
    shares = Counter(map(division.part_of, made))
    assert all(0.8 * 2_000 <= shares[part] <= 1.2 * 2_000 for part in range(4))


def test_transactions_of_one_part_are_spread_by_the_next_layout() -> None:
    """Who tries signatures until they all fall into one part has done so for one division."""
    chosen = [each for each in (_signature(b"x", n) for n in range(8_000)) if Division(5, 4).part_of(each) == 0]
    shares = Counter(map(Division(6, 4).part_of, chosen))
    assert len(shares) == 4 and max(shares.values()) < 1.2 * len(chosen) / 4


def test_a_layout_survives_being_stored() -> None:
    assert read_division(Division(1_700_000_000_000, 64).text) == Division(1_700_000_000_000, 64)
    for text in ("", "5", "0/1", "5/0", "5/100", "x/1", "5/1/1", "٣/1"):
        assert read_division(text) is None, text


def _old(counts: dict[int, int]) -> dict[str, str]:
    return {f"{index}/{count}": str(slot) for count, slot in counts.items() for index in range(count)}


@given(counts=st.dictionaries(st.integers(1, 12), st.integers(1, 9_000), min_size=1), parts=st.integers(1, PARTS_MAX))
def test_positions_of_the_first_releases_are_taken_over(counts: dict[int, int], parts: int) -> None:
    """They kept one for each classifier. Where they ran with several numbers of them, the furthest one counts."""
    arranged = arrange(_old(counts), parts)
    assert arranged == Arrangement((max(counts.values()),) * parts, {})


@given(slots=st.lists(st.integers(1, 9_000), min_size=len(SLICES), max_size=len(SLICES)), parts=st.integers(1, 9))
def test_positions_of_programs_are_taken_over(slots: list[int], parts: int) -> None:
    """Nothing is lost (all begin at the slowest one), and nothing told again of what was further."""
    stored = dict(zip(SLICES, map(str, slots), strict=True))
    arranged = arrange(stored, parts)
    assert arranged.positions == (min(slots),) * parts
    for name, slot in zip(SLICES, slots, strict=True):
        assert max(arranged.positions[0], arranged.floors.get(name, 0)) == slot


def test_each_program_of_the_first_releases_has_the_position_of_its_classifier() -> None:
    arranged = arrange({"0/3": "100", "1/3": "90", "2/3": "80"}, 2)
    assert arranged.positions == (80, 80)
    assert [arranged.floors.get(program, 80) for program in PROGRAMS[:4]] == [100, 90, 80, 100]
    assert arranged.floors[WALLETS_SLICE] == 100


@given(
    before=st.lists(st.integers(1, 9_000), min_size=1, max_size=PARTS_MAX),
    parts=st.integers(1, PARTS_MAX),
    floor=st.integers(1, 9_000),
)
def test_a_new_layout_begins_where_the_slowest_part_was(before: list[int], parts: int, floor: int) -> None:
    """Floors stay as long as they are further."""
    found = {str(part): str(slot) for part, slot in enumerate(before)} | {"r0": "9999", PROGRAMS[0]: str(floor)}
    arranged = arrange(found, parts)
    assert arranged.positions == (min(before),) * parts
    assert arranged.floors == ({PROGRAMS[0]: floor} if floor > min(before) else {})


def test_a_release_before_that_ran_in_between_is_further_than_old_parts() -> None:
    """It kept positions of programs, and left those of the parts alone."""
    found = {"0": "100", "1": "90"} | dict.fromkeys(SLICES, "500")
    assert arrange(found, 2).positions == (500, 500)


def test_a_lost_layout_comes_back_where_each_part_was() -> None:
    """Parts whose own classifier lives begin where it remembers, the others where the history is surely final."""
    assert arrange({RESTORED: "70", "1": "90"}, 3) == Arrangement((70, 90, 70), {})


def test_nothing_is_lost_where_nothing_was() -> None:
    assert arrange({}, 3) == Arrangement((), {})
    assert begin({}, 0, 0, is_empty=True) == Beginning(0)
    assert begin({}, 1, 0, is_empty=True) is None, "all begin at the slot of the first one"
    assert begin({"0": "50"}, 1, 0, is_empty=True) == Beginning(50)


def test_a_part_begins_where_it_was_or_knows_to_be() -> None:
    found = {"0": "50", "1": "60", "r0": "80"}
    assert begin(found, 0, 0, is_empty=False) == begin(found, 0, 70, is_empty=False) == Beginning(50)
    assert begin(found, 0, 40, is_empty=False) == Beginning(40)
    assert begin(found, 2, 0, is_empty=False) == Beginning(50)


@pytest.mark.parametrize("text", ["x", "", "-5", str(1 << 60)])
def test_a_position_that_cannot_be_read_is_lost(text: str) -> None:
    """With signals in the log, nobody can say from where on they are missing."""
    assert begin({"0": text, "1": "50"}, 0, 0, is_empty=False) == Beginning(0, is_lost=True)
    assert begin({}, 0, 0, is_empty=False) == Beginning(0, is_lost=True)
    for found in ({"0": text, "1": "50"}, dict.fromkeys(SLICES, "50") | {SLICES[2]: text}):
        assert arrange(found, 2).positions == ()


def test_floors_are_those_of_programs() -> None:
    assert floors({"0": "50", "r0": "55", PROGRAMS[2]: "70", "other": "80", WALLETS_SLICE: "90"}) == {
        PROGRAMS[2]: 70,
        WALLETS_SLICE: 90,
    }
