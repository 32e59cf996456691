import pytest

from actors.accounts.named_keys import (
    DAY_MS,
    LIST_MAX,
    METHOD_NAMES,
    UNLIMITED,
    KeyLimits,
    KeyProfile,
    Keys,
    KeySpending,
    StoredKey,
    budget_of,
    class_of,
    keys_of,
    may_call,
    may_read,
    may_use,
    mistake_in_limits,
    mistake_in_name,
    rate_limit_of,
    read_limits,
    room_of,
    units_left_of,
    write_limits,
)
from actors.calls import KeyProof, ProvenProof

NOW = 1_700_000_000
TODAY = NOW * 1000 // DAY_MS
ROUTING = b"r" * 8


def keys(*limits: KeyLimits) -> Keys:
    """Each key is made from the one before it."""
    return keys_of(
        StoredKey(
            KeyProfile(number, f"k{number}", bytes([number]) * 32, "prefix", write_limits(each), 0, parent=number - 1),
            KeySpending(),
        )
        for number, each in enumerate(limits, 1)
    )


def test_what_is_held_counts_as_spent_until_it_ends() -> None:
    made = keys(KeyLimits(credits_total=10))
    path = made.path(1)
    made.hold(1, 7)
    assert (room_of(path, TODAY), budget_of(path, TODAY)) == (3, 10)
    made.hold(1, -7)
    made.spend(1, 4, TODAY)
    assert (room_of(path, TODAY), budget_of(path, TODAY)) == (6, 6)
    made.spend(1, -4, TODAY)
    assert room_of(path, TODAY) == 10


def test_a_day_begins_anew_and_no_clock_that_was_set_back_begins_one_again() -> None:
    """Threat 20: the newest day that was paid for stands."""
    made = keys(KeyLimits(credits_a_day=10, credits_total=100))
    path = made.path(1)
    made.spend(1, 10, TODAY)
    assert room_of(path, TODAY) == 0 and room_of(path, TODAY + 1) == 10
    made.spend(1, 4, TODAY + 1)
    assert room_of(path, TODAY) == room_of(path, TODAY + 1) == 6
    made.spend(1, -10, TODAY)  # A refund of yesterday's call makes today's budget no larger.
    assert room_of(path, TODAY + 1) == 6 and path[0].total == 4


def test_what_is_held_over_midnight_counts_on_the_new_day() -> None:
    made = keys(KeyLimits(credits_a_day=10))
    made.hold(1, 8)
    assert room_of(made.path(1), TODAY + 1) == 2


def test_each_level_has_its_own_budget_and_counts_for_those_above() -> None:
    made = keys(KeyLimits(credits_total=100), KeyLimits(credits_total=30), KeyLimits(credits_a_day=50))
    assert [key.profile.number for key in made.path(3)] == [3, 2, 1]
    made.spend(3, 20, TODAY)
    assert [key.total for key in made.path(3)] == [20, 20, 20]
    assert (room_of(made.path(3), TODAY), room_of(made.path(2), TODAY), room_of(made.path(1), TODAY)) == (10, 10, 80)
    made.check(())


def test_no_path_has_no_limits() -> None:
    assert (room_of((), TODAY), units_left_of((), NOW), rate_limit_of((), 50)) == (UNLIMITED, UNLIMITED, 50)
    assert may_use((), KeyProof(b"k" * 32, ROUTING), NOW) and may_call((), "getSlot") and may_read(())


def test_the_rate_of_a_key_is_counted_by_itself_and_for_those_above() -> None:
    made = keys(KeyLimits(requests_per_second=5), KeyLimits(requests_per_second=9))
    made.admit(2, NOW, 3, 0)
    assert (units_left_of(made.path(2), NOW), rate_limit_of(made.path(2), 100)) == (2, 5)
    assert units_left_of(made.path(2), NOW + 1) == 5


@pytest.mark.parametrize(
    ("limits", "proof", "good"),
    [
        (KeyLimits(), KeyProof(b"\1" * 32, ROUTING), True),
        (KeyLimits(expires_at=NOW), KeyProof(b"\1" * 32, ROUTING), False),
        (KeyLimits(expires_at=NOW + 1), KeyProof(b"\1" * 32, ROUTING), True),
        (KeyLimits(addresses=("203.0.113.0/24",)), KeyProof(b"\1" * 32, ROUTING, "203.0.113.9"), True),
        (KeyLimits(addresses=("203.0.113.0/24",)), KeyProof(b"\1" * 32, ROUTING, "203.0.114.9"), False),
        (KeyLimits(addresses=("203.0.113.0/24",)), KeyProof(b"\1" * 32, ROUTING, "unknown"), False),
        (KeyLimits(addresses=("2001:db8::/32",)), KeyProof(b"\1" * 32, ROUTING, "2001:db8::7"), True),
        (KeyLimits(addresses=("203.0.113.9",)), KeyProof(b"\1" * 32, ROUTING), False),
        (KeyLimits(origins=("https://a.example",)), KeyProof(b"\1" * 32, ROUTING, "", "https://a.example"), True),
        (KeyLimits(origins=("https://a.example",)), KeyProof(b"\1" * 32, ROUTING, "", "https://b.example"), False),
        (KeyLimits(origins=("https://a.example",)), KeyProof(b"\1" * 32, ROUTING), False),
        # What is open goes on under the key that was shown when it began.
        (KeyLimits(origins=("https://a.example",)), ProvenProof(b"p" * 32, 1), True),
        (KeyLimits(expires_at=NOW), ProvenProof(b"p" * 32, 1), False),
    ],
)
def test_a_key_is_good_only_where_and_while_it_may_be_used(limits: KeyLimits, proof: object, good: bool) -> None:
    assert may_use(keys(limits).path(1), proof, NOW) is good
    assert may_use(keys(limits, KeyLimits()).path(2), proof, NOW) is good  # The limits of those above count.


def test_a_former_text_is_good_for_its_grace_alone() -> None:
    profile = KeyProfile(1, "k", b"n" * 32, "p", "{}", 0, old_hash=b"o" * 32, old_until=NOW + 60)
    made = keys_of([StoredKey(profile, KeySpending())])
    path, former = made.path(1), KeyProof(b"o" * 32, ROUTING)
    assert made.by_hash[b"o" * 32] is path[0]
    assert may_use(path, former, NOW + 59) and not may_use(path, former, NOW + 60)
    assert may_use(path, KeyProof(b"n" * 32, ROUTING), NOW + 60)


def test_a_change_keeps_what_was_spent_and_ends_the_text_before_the_last() -> None:
    made = keys(KeyLimits(credits_total=10))
    made.spend(1, 6, TODAY)
    before = made.path(1)[0].profile
    made.set(
        KeyProfile(1, "new", b"x" * 32, "p", write_limits(KeyLimits(credits_total=7)), 0, old_hash=before.key_hash)
    )
    made.set(KeyProfile(1, "new", b"y" * 32, "p", write_limits(KeyLimits(credits_total=7)), 0, old_hash=b"x" * 32))
    assert set(made.by_hash) == {b"x" * 32, b"y" * 32}
    assert room_of(made.path(1), TODAY) == 1 and made.last_number == 1


def test_methods_are_named_one_by_one_or_by_class() -> None:
    path = keys(KeyLimits(methods=("READ_CHEAP", "sendTransaction", "STREAMS"))).path(1)
    assert may_call(path, "getSlot") and may_call(path, "sendTransaction")
    assert may_call(path, "logsSubscribe") and may_call(path, "grpc/minute")
    assert not may_call(path, "getBlock") and not may_call(path, "bulk/getBalances") and not may_read(path)
    assert may_read(keys(KeyLimits(methods=("ACCOUNT",))).path(1)) and may_read(keys(KeyLimits()).path(1))
    narrowed = keys(KeyLimits(methods=("READ_CHEAP",)), KeyLimits(methods=("getBlock", "getSlot"))).path(2)
    assert may_call(narrowed, "getSlot") and not may_call(narrowed, "getBlock")


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("getSlot", "READ_CHEAP"),
        ("bulk/getBalances", "BULK"),
        ("relay/tipFloor", "RELAY"),
        ("accountSubscribe", "STREAMS"),
    ],
)
def test_everything_that_is_charged_has_a_class(method: str, name: str) -> None:
    assert class_of(method) == name and name in METHOD_NAMES


@pytest.mark.parametrize(
    "limits",
    [
        KeyLimits(credits_a_day=-1),
        KeyLimits(credits_total=10**15 + 1),
        KeyLimits(requests_per_second=0),
        KeyLimits(expires_at=0),
        KeyLimits(methods=("getslot",)),
        KeyLimits(methods=("DENIED",)),
        KeyLimits(methods=("logsSubscribe",)),  # Streams go by their class.
        KeyLimits(methods=("getSlot", "getSlot")),
        KeyLimits(origins=("a.example",)),
        KeyLimits(origins=("https://a.example/",)),
        KeyLimits(addresses=("10.0.0.300",)),
        KeyLimits(addresses=("10.0.0.1/24",)),  # Bits beyond the network.
        KeyLimits(addresses=tuple(f"10.0.0.{number}" for number in range(LIST_MAX + 1))),
    ],
)
def test_limits_that_mean_nothing_are_refused(limits: KeyLimits) -> None:
    assert mistake_in_limits(limits)


def test_limits_that_can_be_kept_are_taken_and_read_again() -> None:
    limits = KeyLimits(0, 10**15, 1, ("getSlot", "STREAMS"), ("https://a.example:8443",), ("::1", "10.0.0.0/8"), NOW)
    assert mistake_in_limits(limits) is None and read_limits(write_limits(limits)) == limits
    assert write_limits(KeyLimits()) == "{}"


def test_a_name_is_one_line() -> None:
    assert mistake_in_name("bot 1") is None
    assert all(map(mistake_in_name, ("", " bot", "bot\n", "x" * 65)))
