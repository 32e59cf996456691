"""Equal subscriptions become equal requests, and mean the same as what the clients asked for."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.requests import WATCH, header, read_request
from devnode.geyser.filters import read_filter
from devnode.geyser.settings import NO_LIMITS

Request = geyser_pb2.SubscribeRequest
_KEYS = [str(Keypair.from_seed(bytes([n]) * 32).pubkey()) for n in range(1, 4)]
_keys = st.lists(st.sampled_from(_KEYS), max_size=3)
_filters = st.dictionaries(
    st.sampled_from(["x", "y", "~", "z" * 100]), st.fixed_dictionaries({"owner": _keys, "account": _keys}), max_size=3
)


def asked(accounts: dict[str, Any], level: int = 0) -> Request:
    request = Request(commitment=level)  # type: ignore[arg-type]
    for name, value in accounts.items():
        request.accounts[name].account.extend(value["account"])
        request.accounts[name].owner.extend(value["owner"])
    return request


@given(_filters, st.randoms(use_true_random=False))
def test_names_and_orders_change_nothing(accounts: dict[str, Any], rng: Any) -> None:
    """The key is the same for other names, and for the same keys in another order and repeated."""
    other = {}
    for number, (_, value) in enumerate(rng.sample(sorted(accounts.items()), len(accounts))):
        shuffled = {}
        for field, keys in value.items():
            repeated = [*keys, *keys[:1]]
            rng.shuffle(repeated)
            shuffled[field] = repeated
        other[f"renamed {number}"] = shuffled
    one, two = read_request(asked(accounts), 10, 100), read_request(asked(other), 10, 100)
    assert one.key == two.key
    assert len(one.names) == len(accounts)


@given(_filters, st.sampled_from([0, 1, 2]))
def test_the_request_means_what_was_asked(accounts: dict[str, Any], level: int) -> None:
    """A node reads from it the same filters at the same level, beside the watch of ours."""
    wanted = read_request(asked(accounts, level), 10, 100)
    if not accounts:
        assert wanted.key is None
        return
    sent = read_filter(Request.FromString(wanted.request(None)), NO_LIMITS)
    plain = read_filter(asked(accounts, level), NO_LIMITS)
    assert sent.level is plain.level and [one.name for one in sent.slots] == [WATCH]
    by_name = {wanted.names[one.name]: (one.accounts, one.owners) for one in sent.accounts}
    assert by_name == {one.name: (one.accounts, one.owners) for one in plain.accounts}


def test_other_subscriptions_have_other_keys() -> None:
    """Level, slices and every criterion count."""
    one = asked({"a": {"account": [_KEYS[0]], "owner": []}})
    sliced = Request.FromString(one.SerializeToString())
    sliced.accounts_data_slice.add(offset=1, length=2)
    variants = [
        one,
        sliced,
        asked({"a": {"account": [], "owner": [_KEYS[0]]}}),
        asked({"a": {"account": [_KEYS[0]], "owner": []}}, 1),
        asked({"a": {"account": [_KEYS[0]], "owner": []}, "b": {"account": [_KEYS[0]], "owner": []}}),
    ]
    assert len({read_request(request, 10, 100).key for request in variants}) == len(variants)


def test_a_slot_to_resume_at_is_added_to_the_same_request() -> None:
    """In protobuf a message followed by another is both of them; the client's own from_slot is no part of the key."""
    request = asked({"a": {"account": [_KEYS[0]], "owner": []}})
    request.from_slot = 5
    wanted = read_request(request, 10, 100)
    assert wanted.from_slot == 5
    assert not Request.FromString(wanted.request(None)).HasField("from_slot")
    assert Request.FromString(wanted.request(77)).from_slot == 77


@given(st.lists(st.text(max_size=200), max_size=3))
def test_a_header_and_a_body_are_one_update(names: list[str]) -> None:
    names = [name for name in names if name.isprintable()]
    body = geyser_pb2.SubscribeUpdate(slot=geyser_pb2.SubscribeUpdateSlot(slot=9)).SerializeToString()
    update = geyser_pb2.SubscribeUpdate.FromString(header(tuple(names)) + body)
    assert list(update.filters) == names and update.slot.slot == 9
