"""Filters as they are evaluated here, against the node that evaluates the same filters on the same chain."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.match import Cuckoo, StreamFilter
from devnode.geyser.cuckoo import read_cuckoo
from tests.devnode.geyser.test_cuckoo import MEMBERS, message
from tests.streams.geyser_world import geyser_world, settled, until_slot

from .test_replays import key

SYSTEM = "11111111111111111111111111111111"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"


def many_filters(payer: str, to: str, signature: str) -> geyser_pb2.SubscribeRequest:
    request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.CONFIRMED)
    accounts = request.accounts
    accounts["all"].SetInParent()
    accounts["payer"].account.append(payer)
    accounts["system"].owner.append(SYSTEM)
    accounts["token program"].owner.append(TOKEN)
    accounts["signed"].nonempty_txn_signature = True
    accounts["unsigned"].nonempty_txn_signature = False
    accounts["empty"].filters.add(datasize=0)
    accounts["token"].filters.add(token_account_state=True)
    accounts["beyond"].filters.add(memcmp={"offset": 5_000_000, "bytes": b""})
    accounts["nothing at zero"].filters.add(memcmp={"offset": 0, "base58": ""})
    accounts["zeros"].filters.add(memcmp={"offset": 0, "base64": "AAAA"})
    for how in ("eq", "ne", "lt", "gt"):
        accounts[how].filters.add(lamports={how: 10_000_000})
    accounts["payer, rich"].account.append(payer)
    accounts["payer, rich"].filters.add(lamports={"gt": 10})
    accounts["compressed"].cuckoo_accounts_filter.CopyFrom(message())
    for filters in (request.transactions, request.transactions_status):
        filters["votes"].vote = True
        filters["no votes"].vote = False
        filters["failed"].failed = True
        filters["fine"].failed = False
        filters["one"].signature = signature
        filters["to"].account_include.extend([to, SYSTEM])
        filters["not to"].account_exclude.append(to)
        filters["both"].account_required.extend([payer, to])
        filters["compressed"].cuckoo_account_include.CopyFrom(message())
        filters["owners"].account_include.append(to)
        filters["owners"].token_accounts = geyser_pb2.ALL
        filters["changed"].account_include.append(to)
        filters["changed"].token_accounts = geyser_pb2.BALANCE_CHANGED
    request.blocks["default"].SetInParent()
    request.blocks["all"].include_accounts = request.blocks["all"].include_entries = True
    request.blocks["to"].account_include.append(to)
    request.blocks["to"].include_accounts = True
    request.blocks["compressed"].cuckoo_account_include.CopyFrom(message())
    request.blocks["none"].include_transactions = False
    request.slots["levels"].SetInParent()
    request.slots["own"].filter_by_commitment = True
    request.slots["inter"].interslot_updates = True
    request.blocks_meta["meta"].SetInParent()
    request.entry["entry"].SetInParent()
    request.accounts_data_slice.add(offset=0, length=3)
    request.accounts_data_slice.add(offset=32, length=8)
    return request


async def test_a_replay_matches_what_the_node_matches(tmp_path: Path) -> None:
    """Same filters: each kind of filter, on payments, failures, token transfers and votes, byte for byte."""
    async with geyser_world(tmp_path, keeps_window=True) as world:
        await world.until(lambda: world.source.window.first_slot is not None)  # type: ignore[union-attr]
        start = world.local.chain.levels.building.slot + 1
        world.local.beat()
        payer, to = world.local.wallet(10**10, 10**6), Keypair()
        paid = world.local.land(world.local.transfer(payer, to.pubkey(), 10**7)).signature
        world.local.beat()
        world.local.faucet.fund(to.pubkey(), 5_000, 10**5)
        world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**12))  # More than it has.
        world.local.beat()
        last = world.local.chain.levels.building.slot - 1
        request = many_filters(str(payer.pubkey()), str(to.pubkey()), paid)
        request.from_slot = start
        world.local.beat(2)
        direct, through = world.direct(), world.client()
        for client in (direct, through):
            await client.ask(request)
        await settled(world, direct, through)
        await world.until(lambda: world.account.posted == {"grpc/Subscribe": 1})
        for _ in range(8):
            world.local.beat()
        wanted, found = [await until_slot(one, last, geyser_pb2.SLOT_FINALIZED) for one in (direct, through)]
        shown = [
            sorted((key(one) for one in updates if start <= key(one)[1] <= last), key=repr)
            for updates in (wanted, found)
        ]
        assert shown[0] == shown[1]
        matched = {name for one in found for name in one.filters}
        assert set(request.accounts) | set(request.transactions) <= matched | {"votes", "beyond", "unsigned", "zeros"}


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=20))
def test_a_compressed_set_is_read_as_a_client_made_it(keys: list[bytes]) -> None:
    """As yellowstone-grpc does: each member of a set that the client's library made is found; others as at the node."""
    ours, theirs = Cuckoo(message()), read_cuckoo(message())
    assert all(bytes(member) in ours for member in MEMBERS)
    assert [key in ours for key in keys] == [key in theirs for key in keys]


@pytest.mark.parametrize(
    ("wanted", "level", "names"),
    [
        ({}, geyser_pb2.SLOT_CONFIRMED, ("s",)),
        ({}, geyser_pb2.SLOT_DEAD, ()),
        ({"interslot_updates": True}, geyser_pb2.SLOT_DEAD, ("s",)),
        ({"filter_by_commitment": True}, geyser_pb2.SLOT_CONFIRMED, ()),
        ({"filter_by_commitment": True}, geyser_pb2.SLOT_FINALIZED, ("s",)),
        ({"filter_by_commitment": True, "interslot_updates": True}, geyser_pb2.SLOT_DEAD, ()),
    ],
)
def test_statuses_are_told_to_those_who_asked(wanted: dict[str, Any], level: int, names: tuple[str, ...]) -> None:
    """As yellowstone-grpc does: the three levels always, or one's own alone; those between slots on request."""
    request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.FINALIZED)
    request.slots["s"].CopyFrom(geyser_pb2.SubscribeRequestFilterSlots(**wanted))
    assert StreamFilter(request).of_status(level) == names
