"""The checks of a subscription, against the embedded chain's own filters, which were written apart from them."""

import base64
from typing import Any

import base58
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.limits import BadSubscription, check_request, check_shape
from devnode.geyser.filters import read_filter
from devnode.geyser.settings import AccountLimits, FilterLimits, TransactionLimits
from devnode.geyser.settings import BadFilter as NodeRefuses

Request = geyser_pb2.SubscribeRequest
KEYS_MAX = 3
_KEYS = [str(Keypair.from_seed(bytes([n]) * 32).pubkey()) for n in range(1, 5)]
_NODE_LIMITS = FilterLimits(
    accounts=AccountLimits(account_max=KEYS_MAX, owner_max=KEYS_MAX),
    transactions=TransactionLimits(
        account_include_max=KEYS_MAX, account_exclude_max=KEYS_MAX, account_required_max=KEYS_MAX
    ),
    transactions_status=TransactionLimits(
        account_include_max=KEYS_MAX, account_exclude_max=KEYS_MAX, account_required_max=KEYS_MAX
    ),
)
_names = st.sampled_from(["a", "b", "n" * 128, "n" * 129, "ü" * 64, "ü" * 65])
_keys = st.lists(st.sampled_from([*_KEYS, "", "not a key", "1" * 44]), max_size=KEYS_MAX + 1)
_memcmp = st.one_of(
    st.builds(lambda size: {"bytes": b"x" * size}, st.sampled_from([0, 128, 129])),
    st.builds(lambda size: {"base58": base58.b58encode(b"x" * size).decode()}, st.sampled_from([1, 128, 129])),
    st.builds(lambda size: {"base64": base64.b64encode(b"x" * size).decode()}, st.sampled_from([1, 128, 129])),
    st.sampled_from([{}, {"base58": "0OIl"}, {"base64": "???"}, {"base64": "a"}, {"base58": "1" * 176}]),
)
_states = st.lists(
    st.one_of(
        st.builds(lambda data: {"memcmp": {"offset": 3, **data}}, _memcmp),
        st.sampled_from([{"datasize": 165}, {"token_account_state": True}, {"token_account_state": False}, {}]),
        st.sampled_from([{"lamports": {"eq": 1}}, {"lamports": {}}, {"lamports": {"gt": 2**64 - 1}}]),
    ),
    max_size=5,
)
_cuckoos = st.builds(
    geyser_pb2.CuckooFilter,
    data=st.sampled_from([b"", bytes(8), bytes(16), bytes(24)]),
    bucket_count=st.integers(0, 3),
    entries_per_bucket=st.sampled_from([4, 4, 4, 2]),
    fingerprint_bits=st.sampled_from([16, 16, 16, 8]),
)
_accounts = st.fixed_dictionaries(
    {"account": _keys, "owner": _keys, "filters": _states}, optional={"cuckoo_accounts_filter": _cuckoos}
)
_transactions = st.fixed_dictionaries(
    {"account_include": _keys, "account_exclude": _keys, "account_required": _keys},
    optional={
        "vote": st.booleans(),
        "token_accounts": st.sampled_from([0, 1, 7]),
        "signature": st.sampled_from(["", "bad", "1" * 64]),
        "cuckoo_account_include": _cuckoos,
    },
)
_requests = st.fixed_dictionaries(
    {},
    optional={
        "commitment": st.sampled_from([0, 1, 2, 3, 99]),
        "accounts": st.dictionaries(_names, _accounts, max_size=2),
        "transactions": st.dictionaries(_names, _transactions, max_size=2),
        "transactions_status": st.dictionaries(_names, _transactions, max_size=2),
        "slots": st.dictionaries(_names, st.just({}), max_size=2),
        "blocks_meta": st.dictionaries(_names, st.just({}), max_size=2),
        "accounts_data_slice": st.lists(
            st.fixed_dictionaries({"offset": st.integers(0, 6), "length": st.integers(0, 4)}), max_size=4
        ),
    },
)


def built(fields: dict[str, Any]) -> Request:
    """A request of these fields. Maps of messages are filled name by name, as Python's protobuf wants it."""
    plain = {k: v for k, v in fields.items() if k in ("commitment", "accounts_data_slice")}
    request = Request(**plain)
    for field, filters in fields.items():
        if field in plain:
            continue
        into = getattr(request, field)
        for name, value in filters.items():
            into[name].MergeFrom(type(into[name])(**value))
    return request


def keys_of(filters: dict[str, Any]) -> int:
    return sum(len(v) for f in filters.values() for v in f.values() if isinstance(v, list))


def judged(field: str, value: Any) -> tuple[str | None, str | None]:
    """What is wrong with the filters of one kind by this check, and by the node. None: nothing."""
    request = built({field: value})
    found = wanted = None
    try:
        read_filter(request, _NODE_LIMITS)
    except NodeRefuses as refused:
        wanted = str(refused)
    try:
        check_request(request, 1_000, KEYS_MAX)
    except BadSubscription as bad:
        found = str(bad)
    return found, wanted


@given(_requests)
def test_it_takes_what_a_node_takes_and_refuses_with_the_nodes_words(fields: dict[str, Any]) -> None:
    """Same limits and texts as the plugin: the chain's reader of filters is the reference, filter kind by filter kind.

    One kind at a time, as the two may meet the faults of a request in another order.
    """
    for field, value in fields.items():
        found, wanted = judged(field, value)
        if wanted is None and found == f"Max amount of Pubkeys reached, only {KEYS_MAX} allowed":
            # Here the keys of all filters count together, so that many filters are no way around the limit.
            assert keys_of(value) > KEYS_MAX
            continue
        assert (found is None) == (wanted is None), (field, found, wanted)
        if not isinstance(value, dict) or len(value) <= 1:
            assert found == wanted


@pytest.mark.parametrize(
    "states",
    [
        [{}],
        [{"datasize": 1}] * 5,
        [{"datasize": 1}, {"datasize": 2}],
        [{"token_account_state": False}],
        [{"lamports": {}}],
        *(
            [{"memcmp": {"offset": 3, **data}}]
            for data in (
                *({}, {"base58": "0OIl"}, {"base58": "1" * 176}, {"base58": base58.b58encode(b"x" * 129).decode()}),
                *({"base64": "???"}, {"base64": "A" * 176}, {"bytes": b"x" * 129}),
            )
        ),
    ],
)
def test_each_condition_that_cannot_be_is_refused_with_the_nodes_words(states: list[dict[str, Any]]) -> None:
    """Each by itself: in a generated request, another fault mostly comes before it."""
    found, wanted = judged("accounts", {"a": {"account": [], "owner": [], "filters": states}})
    assert found is not None and found == wanted


def test_a_mode_or_a_hash_that_nobody_knows_is_refused() -> None:
    keys: dict[str, list[str]] = {"account_include": [], "account_exclude": [], "account_required": []}
    found, wanted = judged("transactions", {"t": {**keys, "token_accounts": 7}})
    assert found is not None and found == wanted
    cuckoo = geyser_pb2.CuckooFilter(data=bytes(8), bucket_count=1, entries_per_bucket=4, fingerprint_bits=16)
    cuckoo.hash_algorithm = 9  # type: ignore[assignment]
    found, _ = judged("transactions", {"t": {**keys, "cuckoo_account_include": cuckoo}})
    assert found == "unknown hash algorithm 9 of a cuckoo filter"


def test_absurd_sizes_are_refused_in_yellowstones_words() -> None:
    """Hostile: filters without end, and keys without end."""
    many = Request()
    for number in range(11):
        many.slots[str(number)].SetInParent()
    with pytest.raises(BadSubscription, match="Max amount of filters/data_slices reached, only 10 allowed"):
        check_request(many, 10, 10)
    keys = Request()
    keys.accounts["all"].account.extend(_KEYS * 25_000)
    with pytest.raises(BadSubscription, match="Max amount of Pubkeys reached, only 50000 allowed"):
        check_request(keys, 10, 50_000)


def test_many_tiny_parts_are_refused_before_they_are_decoded() -> None:
    """Hostile: two megabytes of empty conditions, filters or slices take a second to decode."""
    many = 300_000
    conditions = geyser_pb2.SubscribeRequest()
    conditions.accounts["a"].filters.extend([geyser_pb2.SubscribeRequestFilterAccountsFilter()] * many)
    slices = geyser_pb2.SubscribeRequest()
    slices.accounts_data_slice.extend([geyser_pb2.SubscribeRequestAccountsDataSlice()] * many)
    for request in (conditions, slices):
        with pytest.raises(BadSubscription, match="Max amount of"):
            check_shape(request.SerializeToString(), 1_000, 50_000)
    check_shape(b"", 1, 1)
    for broken in (b"\xff", b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0b" * 9):
        with pytest.raises(DecodeError):
            check_shape(broken, 1, 1)


@pytest.mark.parametrize("kinds", [("slots", "entry"), ("accounts", "transactions", "blocks")])
def test_filters_of_all_kinds_count_together(kinds: tuple[str, ...]) -> None:
    """Threat 62: seven kinds of 1,000 empty filters took 59 ms to read."""
    request = Request()
    for number in range(12):
        getattr(request, kinds[number % len(kinds)])[str(number)].SetInParent()
    check_request(request, 12, 10)
    check_shape(request.SerializeToString(), 12, 10)
    with pytest.raises(BadSubscription, match="Max amount of filters/data_slices reached, only 11 allowed"):
        check_request(request, 11, 10)
    for number in range(20):
        request.slots[f"more {number}"].SetInParent()
    with pytest.raises(BadSubscription, match="Max amount of filters/data_slices reached, only 11 allowed"):
        check_shape(request.SerializeToString(), 11, 10)


def test_keys_of_all_lists_count_together() -> None:
    request = Request()
    request.accounts["a"].account.extend(_KEYS)
    request.transactions["t"].account_required.extend(_KEYS)
    request.blocks["b"].account_include.extend(_KEYS)
    check_request(request, 10, 12)
    with pytest.raises(BadSubscription, match="Max amount of Pubkeys reached, only 11 allowed"):
        check_request(request, 10, 11)


@given(st.dictionaries(st.text(max_size=8), st.lists(st.integers(0, 2**64 - 1), max_size=4), max_size=20))
def test_the_look_before_decoding_refuses_nothing_that_is_allowed(filters: dict[str, list[int]]) -> None:
    request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.FINALIZED, from_slot=7)
    for name, sizes in filters.items():
        request.accounts[name].filters.extend(
            geyser_pb2.SubscribeRequestFilterAccountsFilter(lamports={"gt": size}) for size in sizes
        )
        request.transactions[name].account_include.extend(map(str, sizes))
        request.entry[name].SetInParent()
    check_shape(request.SerializeToString(), 3 * max(len(filters), 1), 80)
