"""A devnode process with leaders, a crowd and faults, as a sender meets it."""

import base64
import time
from typing import Any

import httpx
from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from .conftest import StartDevnode
from .faulty import Faulty
from .local_node import give

SECONDS_MAX = 30


def arrivals(node: Faulty, after: int = 0) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = httpx.get(f"{node.url}/admin/arrivals?after={after}").json()["arrivals"]
    return listed


def until_settled(node: Faulty) -> list[dict[str, Any]]:
    deadline = time.monotonic() + SECONDS_MAX
    while "waiting" in {one["fate"] for one in arrivals(node)}:
        assert time.monotonic() < deadline, arrivals(node)
        time.sleep(0.05)
    return arrivals(node)


def priced(node: Faulty, payer: Keypair, price: int) -> VersionedTransaction:
    latest = node.call("getLatestBlockhash", {"commitment": "confirmed"})["value"]["blockhash"]
    instructions = [set_compute_unit_price(price), give(payer, Pubkey.new_unique(), 2_000_000)]
    message = MessageV0.try_compile(payer.pubkey(), instructions, [], Hash.from_string(latest))
    return VersionedTransaction(message, [payer])


def test_leaders_that_fail_cost_time_but_lose_nothing(start_devnode: StartDevnode) -> None:
    """One leader drops what it gets, one skips half of its slots, one is late: every send still lands."""
    node = Faulty(start_devnode("chain", "--leaders", "3", "--seed", "5"))
    assert len({one["tpuQuic"] for one in node.call("getClusterNodes")}) == 3
    node.set(leaders={"0": {"drop_share": 1}, "1": {"skip_share": 0.5}, "2": {"late_ms": 20}})
    payer = node.wallet()
    signatures = [node.send(node.payment(payer, Pubkey.new_unique(), 2_000_000 + number)) for number in range(20)]
    found = until_settled(node)
    assert [one["signature"] for one in found] == signatures
    assert {one["fate"] for one in found} == {"landed"} and {one["leg"] for one in found} == {"local_rpc"}
    slots = {one["landed_slot"] for one in found}
    leaders = {node.call("getSlotLeaders", slot, 1)[0] for slot in slots}
    assert node.call("getIdentity")["identity"] not in leaders
    node.process.terminate()


def test_a_late_leader_makes_its_slots_longer(start_devnode: StartDevnode) -> None:
    node = Faulty(start_devnode("chain", "--slot-ms", "20"))
    node.set(leaders={"*": {"late_ms": 250}})
    slot, began = node.slot(), time.monotonic()
    node.wait_for_slot(slot + 5)
    assert time.monotonic() - began >= 4 * 0.25
    node.clear()


def test_a_crowd_makes_the_cheap_wait(start_devnode: StartDevnode) -> None:
    """The crowd is set over the admin door; a high fee lands at once, a low one only when the crowd has gone."""
    node = Faulty(start_devnode("chain", "--slot-ms", "100", "--block-units", "6000000", "--account-units", "6000000"))
    payers = [node.wallet() for _ in range(2)]
    reply = httpx.post(f"{node.url}/admin/crowd", json={"load": 3, "seed": 2})
    assert reply.json()["crowd"]["load"] == 3
    node.wait_for_slot(node.slot() + 4)
    for payer, price in zip(payers, (10**7, 1), strict=True):
        text = base64.b64encode(bytes(priced(node, payer, price))).decode()
        node.call("sendTransaction", text, {"encoding": "base64", "skipPreflight": True})
    high, low = arrivals(node)
    node.wait_for_slot(node.slot() + 5)
    high, low = arrivals(node)
    assert high["fate"] == "landed" and high["landed_slot"] - high["slot"] <= 1
    assert low["fate"] == "waiting"
    assert httpx.post(f"{node.url}/admin/crowd", json={"load": None}).json()["crowd"]["load"] == 0
    assert until_settled(node)[1]["fate"] == "landed"


def test_a_crowd_can_be_there_from_the_start(start_devnode: StartDevnode) -> None:
    node = Faulty(start_devnode("chain", "--slot-ms", "100", "--crowd", "0.5", "--seed", "9"))
    assert httpx.get(f"{node.url}/admin/crowd").json()["crowd"]["seed"] == 9
    first = node.slot()
    node.wait_for_slot(first + 6, "confirmed")
    counts = [
        len(
            node.call(
                "getBlock", slot, {"transactionDetails": "signatures", "rewards": False, "commitment": "confirmed"}
            )["signatures"]
        )
        for slot in range(first + 1, first + 5)
    ]
    assert min(counts) > 5


def test_leaders_keep_their_identities_over_a_restart(start_devnode: StartDevnode) -> None:
    """More leaders after a restart: the first ones are the same, and the new ones have vote accounts too."""
    process = start_devnode("chain", "--leaders", "2")
    before = [one["pubkey"] for one in Faulty(process).call("getClusterNodes")]
    process.terminate()
    node = Faulty(start_devnode("chain", "--leaders", "4"))
    assert [one["pubkey"] for one in node.call("getClusterNodes")][:2] == before
    for vote in node.call("getVoteAccounts")["current"]:
        shown = node.call("getAccountInfo", vote["votePubkey"], {"commitment": "processed", "encoding": "base64"})
        assert shown["value"]["owner"].startswith("Vote111")
