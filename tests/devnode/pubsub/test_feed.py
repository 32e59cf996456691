from typing import Any

import pytest
from solders.pubkey import Pubkey
from solders.rpc import responses

from devnode.chain.chain import DEAD_BLOCK
from devnode.chain.open_block import ForkEnd
from devnode.chain.submissions import Source
from devnode.encoding.addresses import SYSVAR_CLOCK, TOKEN_PROGRAM, USDC_MINT
from devnode.faults.plan import read_plan
from devnode.rpc.tokens import get_token_accounts_by_owner
from tests.devnode.local_node import LocalNode

from .listener import Listener

PROCESSED, CONFIRMED, FINALIZED = ({"commitment": level} for level in ("processed", "confirmed", "finalized"))
NOWHERE: dict[str, Any] = {}


def start_write(local: LocalNode) -> None:
    """Seal a slot without writing it to the journal, so that it stays processed."""
    local.clock.advance(0.4)
    local.unwritten = local.chain.seal(local.clock.now(), local.clock.monotonic())  # type: ignore[attr-defined]


def end_write(local: LocalNode) -> None:
    sealed = local.unwritten  # type: ignore[attr-defined]
    local.journal.flush(sealed)
    local.chain.mark_durable(sealed.block.slot)


# Accounts and programs.


def test_an_account_is_notified_once_a_slot_at_each_level(local: LocalNode, listener: Listener) -> None:
    """The notification has the contents at the end of the slot and comes when the slot reaches the level."""
    payer, to = local.wallet(), Pubkey.new_unique()
    ids = [
        listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **level})
        for level in (PROCESSED, CONFIRMED, FINALIZED)
    ]
    assert listener.notifications() == []
    slot = local.land(local.transfer(payer, to, 2_000_000)).slot
    local.land(local.transfer(payer, to, 1_000_000))
    assert listener.notifications() == []
    start_write(local)
    for identifier, step in zip(ids, (lambda: None, lambda: end_write(local), lambda: local.beat(3)), strict=True):
        step()
        (received,) = listener.notifications()
        assert received["method"] == "accountNotification" and received["params"]["subscription"] == identifier
        assert received["params"]["result"]["context"] == {"slot": slot}
        assert received["params"]["result"]["value"]["lamports"] == 3_000_000
    local.finalize()
    assert listener.notifications() == []


def test_each_level_shows_the_account_at_its_slot(local: LocalNode, listener: Listener) -> None:
    """A notification at finalized does not show writes of later slots."""
    payer, to = local.wallet(), Pubkey.new_unique()
    listener.subscribe("accountSubscribe", str(to))
    slots = []
    for lamports in (2_000_000, 3_000_000, 4_000_000):
        slots.append(local.land(local.transfer(payer, to, lamports)).slot)
        local.beat()
    local.finalize()
    assert [(slot, value["lamports"]) for slot, value in listener.values()] == list(
        zip(slots, (2_000_000, 5_000_000, 9_000_000), strict=True)
    )


def test_a_closed_account_is_notified(local: LocalNode, listener: Listener) -> None:
    """The notification shows an empty account."""
    payer = local.wallet(2_000_000)
    listener.subscribe("accountSubscribe", str(payer.pubkey()), {"encoding": "base64", **CONFIRMED})
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000 - 5_000))
    local.beat()
    ((_, value),) = listener.values()
    assert value["lamports"] == 0 and value["data"] == ["", "base64"]


def test_a_write_before_the_subscription_is_notified_at_its_level(local: LocalNode, listener: Listener) -> None:
    """A write that reaches the level after the subscription is notified; one that reached it before is not."""
    payer, to = local.wallet(), Pubkey.new_unique()
    slot = local.land(local.transfer(payer, to, 2_000_000)).slot
    local.beat()
    listener.subscribe("accountSubscribe", str(to), CONFIRMED)
    listener.subscribe("accountSubscribe", str(to), {"encoding": "base64"})
    local.finalize()
    assert [slot for slot, _ in listener.values()] == [slot]


def test_writes_of_the_clock_are_notified(local: LocalNode, listener: Listener) -> None:
    """Accounts that the chain itself writes are notified like others."""
    listener.subscribe("accountSubscribe", str(SYSVAR_CLOCK), {"encoding": "jsonParsed", **PROCESSED})
    local.beat(3)
    ticks = [value["data"]["parsed"]["info"]["slot"] for _, value in listener.values()]
    assert len(ticks) >= 2 and ticks == sorted(set(ticks))


def test_accounts_of_a_program_are_notified_by_filter(local: LocalNode, listener: Listener) -> None:
    """Each account of the program that passes the filters has its own notification."""
    wallet = Pubkey.new_unique()
    everything = listener.subscribe("programSubscribe", str(TOKEN_PROGRAM), {"encoding": "jsonParsed", **CONFIRMED})
    filters = [{"dataSize": 165}, {"memcmp": {"offset": 32, "bytes": str(wallet)}}]
    own = listener.subscribe("programSubscribe", str(TOKEN_PROGRAM), {"filters": filters, **CONFIRMED})
    local.faucet.fund(wallet, 10**9, 5_000_000)
    local.beat()
    received = listener.notifications()
    assert {message["method"] for message in received} == {"programNotification"}
    found = [message["params"] for message in received]
    by_own = [params["result"]["value"] for params in found if params["subscription"] == own]
    config = {"encoding": "base64", **CONFIRMED}
    (token_account,) = get_token_accounts_by_owner(local.node, [str(wallet), {"mint": str(USDC_MINT)}, config])["value"]
    assert [value["pubkey"] for value in by_own] == [token_account["pubkey"]]
    parsed = [params["result"]["value"] for params in found if params["subscription"] == everything]
    assert {value["account"]["data"]["parsed"]["type"] for value in parsed} == {"account", "mint"}
    local.beat()
    assert listener.notifications() == []


# Logs and signatures.


def test_logs_are_notified_at_each_level(local: LocalNode, listener: Listener) -> None:
    """At processed when the slot is sealed and not before, as a node shows the logs of a whole bank; at other levels
    when the slot reaches them; in the order of the block, failures as well."""
    payer = local.wallet()
    ids = [listener.subscribe("logsSubscribe", "all", level) for level in (PROCESSED, CONFIRMED, NOWHERE)]
    good = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    bad = local.land(local.transfer(payer, Pubkey.new_unique(), 10**12))
    expected = [(record.slot, record.signature, record.meta.err) for record in (good, bad)]
    assert listener.notifications() == []
    local.beat()  # Blocks are confirmed with their seal.
    at_seal = listener.notifications()
    local.finalize()
    for identifier, messages in zip(ids, (at_seal, at_seal, listener.notifications()), strict=True):
        results = [one["params"]["result"] for one in messages if one["params"]["subscription"] == identifier]
        received = [
            (result["context"]["slot"], result["value"]["signature"], result["value"]["err"]) for result in results
        ]
        assert received == expected


def test_logs_by_mention_find_any_key(local: LocalNode, listener: Listener) -> None:
    """A transaction is notified if any of its keys is the mentioned one."""
    payer, to = local.wallet(), Pubkey.new_unique()
    listener.subscribe("logsSubscribe", {"mentions": [str(to)]}, CONFIRMED)
    listener.subscribe("logsSubscribe", {"mentions": [str(to)]}, PROCESSED)
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    wanted = local.land(local.transfer(payer, to, 2_000_000))
    local.beat()
    assert [value["signature"] for _, value in listener.values()] == [wanted.signature] * 2


@pytest.mark.parametrize("level", [PROCESSED, CONFIRMED, FINALIZED])
def test_a_signature_is_notified_once_at_its_level(local: LocalNode, listener: Listener, level: dict[str, str]) -> None:
    """After the notification the server has ended the subscription."""
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    signature = str(transaction.signatures[0])
    identifier = listener.subscribe("signatureSubscribe", signature, level)
    slot = local.land(transaction).slot
    if level is not PROCESSED:
        assert listener.notifications() == []
    local.beat()
    if level is FINALIZED:
        assert listener.notifications() == []
    local.finalize()
    assert listener.values() == [(slot, {"err": None})]
    assert listener.error("signatureUnsubscribe", identifier) == (-32602, "Invalid subscription id.")


def test_a_failed_signature_is_notified_with_its_error(local: LocalNode, listener: Listener) -> None:
    """The error is the same as in getSignatureStatuses."""
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 10**12)
    listener.subscribe("signatureSubscribe", str(transaction.signatures[0]), CONFIRMED)
    local.land(transaction)
    local.beat()
    ((_, value),) = listener.values()
    assert value == {"err": {"InstructionError": [0, {"Custom": 1}]}}


@pytest.mark.parametrize("age", [0, 1, 4, 310])
def test_a_signature_that_landed_before_is_notified_at_once(local: LocalNode, listener: Listener, age: int) -> None:
    """The notification follows the reply, at any age, from memory or from the archive. Agave would send none."""
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    local.beat(age)
    listener.send({"jsonrpc": "2.0", "id": 1, "method": "signatureSubscribe", "params": [record.signature, PROCESSED]})
    reply, received = listener.queued()
    assert '"id":1' in reply and '"value":{"err":null}' in received


def test_a_signature_that_landed_before_waits_for_its_level(local: LocalNode, listener: Listener) -> None:
    """A signature that landed before is notified when it reaches its level, not earlier."""
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    local.beat()
    listener.subscribe("signatureSubscribe", record.signature)
    assert listener.notifications() == []
    local.finalize()
    assert listener.values() == [(record.slot, {"err": None})]


def test_receipt_is_notified_on_request(local: LocalNode, listener: Listener) -> None:
    """The receipt is a string before the result and does not end the subscription; the transaction may never land."""
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    signature = str(transaction.signatures[0])
    asked = listener.subscribe("signatureSubscribe", signature, {"enableReceivedNotification": True, **PROCESSED})
    listener.subscribe("signatureSubscribe", signature, CONFIRMED)
    local.chain.gates.append(lambda decoded, source: False)
    local.chain.submit(bytes(transaction), Source.RPC)
    (received,) = listener.notifications()
    slot = local.chain.levels.building.slot
    assert received["params"] == {
        "result": {"context": {"slot": slot}, "value": "receivedSignature"},
        "subscription": asked,
    }
    local.chain.gates.clear()
    local.land(transaction)
    assert [value for _, value in listener.values()] == ["receivedSignature", {"err": None}]


# Slots and blocks.


def test_slots_and_roots_in_order(local: LocalNode, listener: Listener) -> None:
    """A slot is notified when it opens, with its parent and the root; a root when it is final; no skipped slots."""
    slots = listener.subscribe("slotSubscribe")
    roots = listener.subscribe("rootSubscribe")
    first = local.chain.levels.building.slot
    local.beat(1, skip=2)
    local.beat(1)
    received = listener.notifications()
    opened = [message["params"]["result"] for message in received if message["params"]["subscription"] == slots]
    assert [(slot["parent"], slot["slot"]) for slot in opened] == [(first, first + 3), (first + 3, first + 4)]
    reached = [message["params"]["result"] for message in received if message["params"]["subscription"] == roots]
    assert reached == [reached[0], reached[0] + 1] and reached[-1] == local.call("getSlot")
    assert {message["method"] for message in received} == {"slotNotification", "rootNotification"}


def test_a_slot_has_all_updates_in_order(local: LocalNode, listener: Listener) -> None:
    """The updates of a slot go from its first shred to its root."""
    listener.subscribe("slotsUpdatesSubscribe")
    slot = local.chain.levels.building.slot + 1
    local.beat(6)
    assert [update["type"] for update in listener.results() if update["slot"] == slot] == [
        "firstShredReceived",
        "createdBank",
        "completed",
        "frozen",
        "optimisticConfirmation",
        "root",
    ]


def test_blocks_are_notified_at_their_level(local: LocalNode, listener: Listener) -> None:
    """Every block is notified once, also an empty one; by mention, only blocks with the key."""
    payer, to = local.wallet(), Pubkey.new_unique()
    version = {"maxSupportedTransactionVersion": 0, "transactionDetails": "signatures"}
    confirmed = listener.subscribe("blockSubscribe", "all", version | CONFIRMED)
    finalized = listener.subscribe("blockSubscribe", {"mentionsAccountOrProgram": str(to)}, version)
    record = local.land(local.transfer(payer, to, 2_000_000))
    local.beat(2)
    received = listener.results(confirmed)
    assert [len(result["value"]["block"]["signatures"]) for result in received] == [1, 0]
    assert [result["context"]["slot"] for result in received] == [record.slot, record.slot + 1]
    local.finalize()
    (result,) = listener.results(finalized)
    assert result["value"]["block"]["signatures"] == [record.signature]


def test_all_notifications_decode_in_a_client(local: LocalNode, listener: Listener) -> None:
    """An independent library decodes all notifications of a payment."""
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 2_000_000)
    listener.subscribe("accountSubscribe", str(to), {"encoding": "base64"})
    listener.subscribe("programSubscribe", "11111111111111111111111111111111", {"encoding": "jsonParsed"})
    listener.subscribe("logsSubscribe", "all")
    listener.subscribe("signatureSubscribe", str(transaction.signatures[0]))
    listener.subscribe("blockSubscribe", "all", {"encoding": "json", "maxSupportedTransactionVersion": 0})
    for method in ("slotSubscribe", "rootSubscribe", "slotsUpdatesSubscribe"):
        listener.subscribe(method)
    local.land(transaction)
    local.beat()
    local.finalize()
    assert {type(message) for message in listener.decoded()} == {
        responses.AccountNotification,
        responses.ProgramNotification,
        responses.LogsNotification,
        responses.SignatureNotification,
        responses.BlockNotification,
        responses.SlotNotification,
        responses.RootNotification,
        responses.SlotUpdateNotification,
    }


# Faults.


def lose_fork(local: LocalNode, first: int, is_dead: bool = False) -> None:
    """Seal the slot being built as the last block of a lost fork."""
    local.clock.advance(0.4)
    local.chain.seal(local.clock.now(), local.clock.monotonic(), fork_end=ForkEnd(first, is_dead))


def test_a_lost_fork_has_the_notifications_of_a_node(local: LocalNode, listener: Listener) -> None:
    """At processed, the transaction is notified and then the old contents; at confirmed there is no notification;
    the parent of the next slot is below the fork."""
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 2_000_000)
    signature = str(transaction.signatures[0])
    processed = listener.subscribe("accountSubscribe", str(payer.pubkey()), {"encoding": "base64", **PROCESSED})
    confirmed = listener.subscribe("accountSubscribe", str(payer.pubkey()), {"encoding": "base64", **CONFIRMED})
    new = listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **PROCESSED})
    logs = listener.subscribe("logsSubscribe", {"mentions": [str(to)]}, PROCESSED)
    waits = listener.subscribe("signatureSubscribe", signature, CONFIRMED)
    slots = listener.subscribe("slotSubscribe")
    first = local.land(transaction).slot
    lose_fork(local, first)
    local.beat(3)
    received: dict[int, list[Any]] = {}
    for message in listener.notifications():
        received.setdefault(message["params"]["subscription"], []).append(message["params"]["result"])
    assert [(result["context"]["slot"], result["value"]["lamports"]) for result in received[processed]] == [
        (first, 10**9 - 2_005_000),
        (first + 1, 10**9),
    ]
    assert [(result["context"]["slot"], result["value"]["lamports"]) for result in received[new]] == [
        (first, 2_000_000),
        (first + 1, 0),
    ], "the account that the fork created is shown as empty"
    assert len(received[logs]) == 1
    assert confirmed not in received and waits not in received
    assert received[slots][0]["slot"] == first + 1 and received[slots][0]["parent"] == first - 1
    local.land(transaction)
    local.beat()
    assert listener.results(waits)[0]["value"] == {"err": None}


def test_a_dead_block_has_the_update_dead_and_no_other(local: LocalNode, listener: Listener) -> None:
    """Its bank was never complete, so its logs are not notified either."""
    payer = local.wallet()
    logs = listener.subscribe("logsSubscribe", "all", PROCESSED)
    updates = listener.subscribe("slotsUpdatesSubscribe")
    slot = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000)).slot
    lose_fork(local, slot, is_dead=True)
    local.beat()
    received = [message["params"] for message in listener.notifications()]
    assert logs not in [params["subscription"] for params in received]
    results = [params["result"] for params in received if params["subscription"] == updates]
    of_slot = [result for result in results if result["slot"] == slot]
    assert [result["type"] for result in of_slot] == ["dead"]
    assert of_slot[0]["err"] == DEAD_BLOCK


def test_a_silent_stream_sends_nothing_and_stays_open(local: LocalNode, listener: Listener) -> None:
    """Missed notifications are lost; after the fault ends, notifications continue."""
    payer, to = local.wallet(), Pubkey.new_unique()
    listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **CONFIRMED})
    local.node.faults.set(read_plan({"streams": {"pubsub": {"silent": True}}}))
    local.land(local.transfer(payer, to, 2_000_000))
    local.beat(2)
    assert listener.notifications() == [] and not listener.connection.is_cut
    local.node.faults.set(read_plan({}))
    local.land(local.transfer(payer, to, 3_000_000))
    local.beat()
    assert [value["lamports"] for _, value in listener.values()] == [5_000_000]


def test_a_node_that_lags_notifies_late(local: LocalNode, listener: Listener) -> None:
    """Each notification comes that many slots later."""
    payer, to = local.wallet(), Pubkey.new_unique()
    identifier = listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **CONFIRMED})
    local.node.faults.set(read_plan({"node": {"lag_slots": 3}}))
    slot = local.land(local.transfer(payer, to, 2_000_000)).slot
    received = []
    for _ in range(5):
        local.beat()
        received.append([result["context"]["slot"] for result in listener.results(identifier)])
    assert received == [[], [], [], [slot], []]


def test_a_lag_longer_than_the_retention_leaves_blocks_out(local: LocalNode, listener: Listener) -> None:
    """A block that is cleaned up before its notification has none; later blocks are notified."""
    blocks = listener.subscribe("blockSubscribe", "all", FINALIZED | {"transactionDetails": "none"})
    local.node.faults.set(read_plan({"node": {"lag_slots": 30}}))
    first = local.chain.levels.building.slot
    local.beat(20)
    local.journal.prune(first + 10)
    local.beat(30)
    received = [result["context"]["slot"] for result in listener.results(blocks)]
    assert received[0] == first + 10 and received[-1] > first + 12
