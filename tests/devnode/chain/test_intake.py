from collections.abc import Callable
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.chain.intake import ARRIVALS_KEPT, RESEND_SLOTS, ArrivalLog, Fate
from devnode.chain.submissions import Dropped, Source, Waiting
from devnode.encoding.wire import Malformed
from devnode.execution.execution import Refused
from devnode.records.leaders import SLOTS_PER_TURN
from devnode.records.records import TransactionRecord
from tests.devnode.leaders import LEADERS, LedNode
from tests.devnode.local_node import text

SIGNATURE = Signature.default()


def test_a_fate_follows_from_what_the_chain_said() -> None:
    log = ArrivalLog()
    arrival = log.add(Source.TPU, SIGNATURE, 5, 7)
    assert arrival.fate is Fate.WAITING
    for result, fate in (
        (Dropped(), Fate.DROPPED),
        (Refused("AlreadyProcessed"), Fate.DUPLICATE),
        (Malformed("bytes"), Fate.REFUSED),
        (Refused("AccountNotFound"), Fate.REFUSED),
        (Waiting(), Fate.WAITING),
        (Refused("BlockhashNotFound"), Fate.EXPIRED),
    ):
        arrival.settle(result)
        assert arrival.fate is fate, result


def test_only_the_newest_arrivals_are_kept() -> None:
    log = ArrivalLog()
    for number in range(ARRIVALS_KEPT + 10):
        log.add(Source.RPC, SIGNATURE, number, number)
    kept = log.after(0, 10**6)
    assert len(kept) == ARRIVALS_KEPT and kept[0].number == 11
    assert [one.number for one in log.after(kept[-3].number, 5)] == [kept[-2].number, kept[-1].number]


def until(led: LedNode, condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        led.beat()
    raise AssertionError("the chain did not get there in 200 slots")


def test_a_tpu_port_is_its_leaders_own(led: LedNode) -> None:
    """The leader of the slot lands a transaction at once; another keeps it until its own turn, and lands it then."""
    payment = led.payment()
    assert isinstance(led.take(payment, Source.TPU, port=led.leader), TransactionRecord)
    waiting = led.payment()
    other = next(number for number in range(LEADERS) if number != led.leader)
    wait = led.node.leaders.slots_until(other, led.slot)
    assert led.take(waiting, Source.TPU, port=other) == Waiting()
    led.beat(wait - 1)
    assert not led.has_landed(waiting)
    led.beat()
    assert led.has_landed(waiting) and led.leader == other
    fates = [(one["leg"], one["fate"], one["landed_slot"]) for one in led.arrivals()]
    assert fates[1] == ("tpu_quic", "landed", led.slot)


def test_a_leader_does_not_keep_a_transaction_for_a_turn_that_is_far_away(led: LedNode) -> None:
    payment = led.payment()
    led.node.leaders.count, led.node.leaders._turns = 32, {}
    far = max(range(32), key=lambda leader: led.node.leaders.slots_until(leader, led.slot))
    assert led.take(payment, Source.TPU, port=far) == Dropped()
    assert led.arrivals()[0]["fate"] == "dropped"


def test_a_leader_that_skips_its_turn_keeps_the_transaction_for_the_next(led: LedNode) -> None:
    schedule, payment = led.node.leaders, led.payment()

    def is_alone() -> bool:
        """The next turn of leader 1 is not followed by a second one."""
        turn = led.slot + schedule.slots_until(1, led.slot)
        return led.leader != 1 and schedule.leader_at(turn + SLOTS_PER_TURN) != 1

    until(led, is_alone)
    wait = schedule.slots_until(1, led.slot)
    assert led.take(payment, Source.TPU, port=1) == Waiting()
    led.beat(skip=wait + SLOTS_PER_TURN - 1)  # No slot of the turn has a block.
    assert led.leader != 1 and not led.has_landed(payment)
    until(led, lambda: led.has_landed(payment))
    assert led.leader == 1


def test_a_send_by_rpc_reaches_the_leader_and_the_next_one(led: LedNode) -> None:
    """A leader that drops everything costs a send its turn, and no more."""
    payment = led.payment()
    first, following = led.node.leaders.this_and_next(led.slot)
    led.faults(leaders={str(first): {"drop_share": 1}})
    assert led.take(payment) == Waiting()
    until(led, lambda: led.has_landed(payment))
    assert led.leader == following


def test_a_leader_that_drops_everything_lands_nothing_from_its_port(led: LedNode) -> None:
    payment = led.payment()
    led.faults(leaders={"*": {"drop_share": 1}})
    assert led.take(payment, Source.TPU, port=led.leader) == Dropped()
    led.faults(leaders={"*": {"drop_share": 1}, str(led.leader): {"drop_share": 0.0}})
    assert isinstance(led.take(payment, Source.TPU, port=led.leader), TransactionRecord)
    assert [one["fate"] for one in led.arrivals()] == ["dropped", "landed"]


def test_each_broadcast_is_listed_once(led: LedNode) -> None:
    """With its leg, time and fate, in the order of arrival; a listing can be continued after a number."""
    payment, late = led.payment(), led.payment()
    led.take(payment)
    led.take(payment, Source.TPU, port=led.leader)
    led.faults(sends={"rpc": {"delay_share": 1, "delay_slots": 2}})
    led.take(late)
    assert [one["fate"] for one in led.arrivals()] == ["landed", "duplicate", "waiting"]
    led.beat(2)
    listed = led.arrivals()
    assert [one["fate"] for one in listed] == ["landed", "duplicate", "landed"]
    assert [one["number"] for one in listed] == [1, 2, 3]
    assert [one["leg"] for one in listed] == ["local_rpc", "tpu_quic", "local_rpc"]
    assert listed[0]["signature"] == listed[1]["signature"] == str(payment.signatures[0])
    assert listed[0]["landed_slot"] == listed[0]["slot"] and listed[2]["landed_slot"] == listed[2]["slot"] + 2
    assert all(one["time_ms"] <= led.clock.now_ms() for one in listed)
    assert [one["number"] for one in led.admin("GET", "/admin/arrivals", "after=2")["arrivals"]] == [3]
    assert not led.admin("GET", "/admin/arrivals", "after=x")["ok"]


def test_what_a_lost_fork_took_back_is_not_listed_as_landed(led: LedNode) -> None:
    kept, lost = led.payment(), led.payment()
    led.take(kept)
    led.beat()
    led.take(lost)
    led.lose()
    assert [(one["fate"], one["landed_slot"]) for one in led.arrivals()] == [
        ("landed", led.chain.statuses.get(kept.signatures[0]).slot),  # type: ignore[union-attr]
        ("abandoned", None),
    ]
    led.take(lost)
    assert [one["fate"] for one in led.arrivals()] == ["landed", "abandoned", "landed"]


def test_a_refused_send_is_listed_with_its_reason(led: LedNode) -> None:
    poor = led.transfer(led.wallet(), led.keys.faucet.pubkey(), 10**12)
    config = {"encoding": "base64", "preflightCommitment": "processed"}
    assert led.error("sendTransaction", text(poor), config)[0] == -32002
    (listed,) = led.arrivals()
    assert listed["fate"] == "refused" and listed["reason"] == {"InstructionError": [0, {"Custom": 1}]}


def send(led: LedNode, transaction: VersionedTransaction, **config: Any) -> str:
    """Send by JSON-RPC, without preflight."""
    config = {"encoding": "base64", "skipPreflight": True} | config
    signature: str = led.call("sendTransaction", text(transaction), config)
    return signature


def test_the_node_sends_again_until_the_transaction_lands(led: LedNode) -> None:
    """Without maxRetries, until it lands; the broadcast is listed once, whatever the node does with it."""
    payment = led.payment()
    led.faults(sends={"rpc": {"drop_share": 1}})
    send(led, payment)
    led.beat(2 * RESEND_SLOTS)
    assert [one["fate"] for one in led.arrivals()] == ["dropped"]
    led.faults()
    led.beat(RESEND_SLOTS)
    assert led.has_landed(payment)
    assert [one["fate"] for one in led.arrivals()] == ["landed"]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_the_node_sends_again_as_often_as_allowed(led: LedNode, retries: int) -> None:
    """The last re-send counts, and there is none after it."""
    lucky, unlucky = led.payment(), led.payment()
    led.faults(sends={"rpc": {"drop_share": 1}})
    send(led, unlucky, maxRetries=retries)
    led.beat(max(0, retries * RESEND_SLOTS - 1))
    send(led, lucky, maxRetries=retries)
    led.beat()
    led.faults()
    led.beat(10 * RESEND_SLOTS)
    assert led.has_landed(lucky) == (retries > 0) and not led.has_landed(unlucky)


def test_the_node_stops_to_send_what_has_expired(led: LedNode) -> None:
    payment = led.payment()
    led.faults(sends={"rpc": {"drop_share": 1}})
    send(led, payment)
    led.chain.expire_blockhashes()
    led.beat(2)
    led.chain.expire_blockhashes()
    led.beat(RESEND_SLOTS)
    assert led.node.intake._resending == 0
    led.faults()
    led.beat(2 * RESEND_SLOTS)
    assert not led.has_landed(payment)


def test_a_send_that_depends_on_another_lands_by_a_later_try(led: LedNode) -> None:
    """Without preflight, a payment from a wallet that is funded later lands once the wallet is funded."""
    later = Keypair()
    payment = led.transfer(later, Pubkey.new_unique(), 2_000_000)
    send(led, payment)
    assert led.arrivals()[0]["reason"] is not None and not led.has_landed(payment)
    led.faucet.airdrop(later.pubkey(), 10**9)
    led.beat(RESEND_SLOTS)
    assert led.has_landed(payment) and led.arrivals()[0]["fate"] == "landed"


def test_a_send_whose_refusal_was_told_never_lands(led: LedNode) -> None:
    """Preflight sees the funds that a confirmed slot still shows; the present one refuses, and that is the answer."""
    payer = led.wallet()
    emptied = led.transfer(payer, Pubkey.new_unique(), 10**9 - 5_000)
    payment = led.transfer(payer, Pubkey.new_unique(), 2_000_000)
    led.faults(sends={"tpu": {"drop_share": 1}})  # So that sends are not checked and landed in one run.
    led.take(emptied)
    code, _ = led.error("sendTransaction", text(payment), {"encoding": "base64", "preflightCommitment": "confirmed"})
    assert code == -32002
    led.faucet.airdrop(payer.pubkey(), 10**9)
    led.beat(3 * RESEND_SLOTS)
    assert not led.has_landed(payment) and led.node.intake._resending == 0


def test_a_forged_send_is_not_sent_again(led: LedNode) -> None:
    forged = VersionedTransaction.populate(led.payment().message, [led.payment().signatures[0]])
    send(led, forged)
    assert led.node.intake._resending == 0
