"""What clients are told about a chain of several leaders."""

import base64

from solders.pubkey import Pubkey

from devnode.records.leaders import SLOTS_PER_EPOCH
from tests.devnode.leaders import LEADERS, LedNode


def test_all_answers_about_leaders_agree(led: LedNode) -> None:
    nodes = [node["pubkey"] for node in led.call("getClusterNodes")]
    assert len(set(nodes)) == LEADERS and nodes[0] == led.call("getIdentity")["identity"]
    schedule = led.call("getLeaderSchedule")
    assert set(schedule) == set(nodes)
    assert sorted(slot for slots in schedule.values() for slot in slots) == list(range(SLOTS_PER_EPOCH))
    told = led.call("getSlotLeaders", led.slot, 100)
    assert told == [
        next(node for node in nodes if slot in set(schedule[node])) for slot in range(led.slot, led.slot + 100)
    ]
    assert led.call("getSlotLeader", {"commitment": "processed"}) == told[0]
    (only,) = led.call("getLeaderSchedule", {"identity": nodes[1]}).items()
    assert only == (nodes[1], schedule[nodes[1]])


def test_block_production_is_by_leader(led: LedNode) -> None:
    first = led.slot
    led.beat(skip=5)
    led.beat(30)
    last = led.call("getSlot", {"commitment": "finalized"})
    told = led.call("getBlockProduction", {"range": {"firstSlot": first, "lastSlot": last}})["value"]["byIdentity"]
    assert len(told) == LEADERS
    assert sum(led_slots for led_slots, _ in told.values()) == last - first + 1
    assert sum(produced for _, produced in told.values()) == last - first + 1 - 5
    skipped = led.call("getSlotLeaders", first + 1, 5)
    for identity, (led_slots, produced) in told.items():
        assert led_slots - produced == skipped.count(identity)


def test_every_listed_vote_account_exists(led: LedNode) -> None:
    """Each is an account of the vote program that names its node; together they have all the stake."""
    current = led.call("getVoteAccounts")["current"]
    assert [vote["nodePubkey"] for vote in current] == [node["pubkey"] for node in led.call("getClusterNodes")]
    assert sum(vote["activatedStake"] for vote in current) == 42_000_000_000_000
    for vote in current:
        config = {"encoding": "base64", "commitment": "processed"}
        account = led.call("getAccountInfo", vote["votePubkey"], config)["value"]
        data = base64.b64decode(account["data"][0])
        assert account["owner"] == "Vote111111111111111111111111111111111111111" and len(data) == 3_762
        assert data[:4] == b"\x02\0\0\0" and Pubkey.from_bytes(data[4:36]) == Pubkey.from_string(vote["nodePubkey"])
        assert account["lamports"] == led.call("getMinimumBalanceForRentExemption", len(data))
