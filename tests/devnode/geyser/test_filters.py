"""Whole requests: names, commitment, slices, and the types of updates that match."""

import pytest

from actors.geyser_proto import geyser_pb2
from devnode.geyser.block_messages import BlockMetaUpdate, BlockUpdate
from devnode.geyser.filters import Filter, read_filter
from devnode.geyser.messages import SlotUpdate, Update
from devnode.geyser.settings import NO_LIMITS, AccountLimits, BadFilter, FilterLimits
from devnode.records.commitment import Commitment

from .samples import CREATED_MS, KEYS, SLOT, account_update, block, transaction_update

Request = geyser_pb2.SubscribeRequest
STATUSES = (
    geyser_pb2.SLOT_PROCESSED,
    geyser_pb2.SLOT_CONFIRMED,
    geyser_pb2.SLOT_FINALIZED,
    geyser_pb2.SLOT_FIRST_SHRED_RECEIVED,
    geyser_pb2.SLOT_COMPLETED,
    geyser_pb2.SLOT_CREATED_BANK,
    geyser_pb2.SLOT_DEAD,
)


def sent(request: Request, update: Update) -> list[geyser_pb2.SubscribeUpdate]:
    wanted = read_filter(request, NO_LIMITS)
    return [geyser_pb2.SubscribeUpdate.FromString(head + body) for head, body in wanted.messages(update)]


def every_update() -> list[Update]:
    transaction = transaction_update()
    whole = BlockUpdate(block((transaction.record,)), (transaction,), (), CREATED_MS)
    slot = SlotUpdate(SLOT, SLOT - 1, geyser_pb2.SLOT_PROCESSED, CREATED_MS)
    return [account_update(), transaction, *whole.entries, whole, BlockMetaUpdate(whole.block, CREATED_MS), slot]


@pytest.mark.parametrize(
    ("field", "kinds"),
    [
        ("accounts", ["account"]),
        ("slots", ["slot"]),
        ("transactions", ["transaction"]),
        ("transactions_status", ["transaction_status"]),
        ("blocks", ["block"]),
        ("blocks_meta", ["block_meta"]),
        ("entry", ["entry", "entry"]),
    ],
)
def test_each_map_matches_only_its_own_type(field: str, kinds: list[str]) -> None:
    """A filter without conditions matches all updates of its type and no others."""
    request = Request()
    getattr(request, field)["it"].SetInParent()
    found = [one for update in every_update() for one in sent(request, update)]
    assert [one.WhichOneof("update_oneof") for one in found] == kinds
    assert {tuple(one.filters) for one in found} == {("it",)}


def test_an_empty_request_matches_no_update() -> None:
    """A missing map matches no update of its type; before the first request, a stream gets only pings."""
    assert [one for update in every_update() for one in sent(Request(), update)] == []
    assert [one for update in every_update() for one in Filter().messages(update)] == []


def test_matching_filters_share_a_message_except_for_blocks() -> None:
    """One message has the names of all matching filters; each block filter has its own message."""
    request = Request()
    for field in ("accounts", "slots", "transactions", "transactions_status", "blocks", "blocks_meta", "entry"):
        for name in ("one", "two"):
            getattr(request, field)[name].SetInParent()
    request.accounts["other"].account.append(str(KEYS[5]))
    names = {}
    for update in every_update():
        for one in sent(request, update):
            names.setdefault(one.WhichOneof("update_oneof"), []).append(list(one.filters))
    assert names.pop("block") == [["one"], ["two"]]
    assert names.pop("entry") == [["one", "two"], ["one", "two"]]
    assert names == {
        kind: [["one", "two"]] for kind in ("account", "transaction", "transaction_status", "block_meta", "slot")
    }


@pytest.mark.parametrize("level", [geyser_pb2.PROCESSED, geyser_pb2.CONFIRMED, geyser_pb2.FINALIZED])
@pytest.mark.parametrize(("by_commitment", "interslot"), [(False, False), (True, False), (False, True), (True, True)])
def test_statuses_of_slots(level: int, by_commitment: bool, interslot: bool) -> None:
    """A filter gets the three levels or only its own; other statuses only with interslot_updates."""
    request = Request(commitment=level)
    request.slots["it"].filter_by_commitment = by_commitment
    request.slots["it"].interslot_updates = interslot
    found = [status for status in STATUSES if sent(request, SlotUpdate(SLOT, 1, status, CREATED_MS))]
    wanted = [level] if by_commitment else list(STATUSES if interslot else STATUSES[:3])
    assert found == wanted


def test_slices_belong_to_the_whole_request() -> None:
    """They apply to account updates and to accounts in blocks."""
    request = Request(accounts_data_slice=[{"offset": 0, "length": 1}, {"offset": 2, "length": 2}])
    request.accounts["it"].SetInParent()
    (found,) = sent(request, account_update(data=b"abcd"))
    assert found.account.account.data == b"acd"


@pytest.mark.parametrize(
    ("slices", "text"),
    [
        ([(4, 1), (0, 1)], "data slices out of order"),
        ([(0, 5), (4, 1)], "data slices overlapped"),
        ([(0, 1)] * 1 + [(1, 1), (2, 1)], "filters/data_slices reached, only 2 allowed"),
    ],
)
def test_slices_ascend_and_stay_apart(slices: list[tuple[int, int]], text: str) -> None:
    """Adjacent slices are allowed."""
    request = Request(accounts_data_slice=[{"offset": offset, "length": length} for offset, length in slices])
    with pytest.raises(BadFilter, match=text):
        read_filter(request, FilterLimits(accounts=AccountLimits(data_slice_max=2)))


def test_the_default_commitment_is_processed() -> None:
    """An unknown level is refused."""
    assert read_filter(Request(), NO_LIMITS).level is Commitment.PROCESSED
    assert read_filter(Request(commitment=geyser_pb2.FINALIZED), NO_LIMITS).level is Commitment.FINALIZED
    with pytest.raises(BadFilter, match="failed to create CommitmentLevel from 5"):
        read_filter(Request.FromString(b"\x30\x05"), NO_LIMITS)  # Field 6, value 5.


@pytest.mark.parametrize("field", ["accounts", "slots", "transactions", "blocks", "blocks_meta", "entry"])
def test_long_names_are_refused_in_every_map(field: str) -> None:
    """Every update carries the names, so their length is limited."""
    request = Request()
    getattr(request, field)["n" * 129].SetInParent()
    with pytest.raises(BadFilter, match="oversized filter name"):
        read_filter(request, NO_LIMITS)
