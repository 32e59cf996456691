from typing import Any

import pytest
from solders.pubkey import Pubkey
from solders.rpc import responses

from actors.devnode.chain.chain import DEAD_BLOCK, ForkEnd, Source
from actors.devnode.encoding.addresses import SYSVAR_CLOCK, TOKEN_PROGRAM, USDC_MINT
from actors.devnode.faults.plan import read_plan
from actors.devnode.rpc.tokens import get_token_accounts_by_owner
from tests.devnode.local_node import LocalNode

from .listener import Listener

PROCESSED, CONFIRMED, FINALIZED = ({"commitment": level} for level in ("processed", "confirmed", "finalized"))
NOWHERE: dict[str, Any] = {}


def start_write(local: LocalNode) -> None:
    """A slot sealed but not in the journal yet: processed, and no more."""
    local.clock.advance(0.4)
    local.unwritten = local.chain.seal(local.clock.now(), local.clock.monotonic())  # type: ignore[attr-defined]


def end_write(local: LocalNode) -> None:
    sealed = local.unwritten  # type: ignore[attr-defined]
    local.journal.flush(sealed)
    local.chain.mark_durable(sealed.block.slot)


# Accounts and programs.


def test_an_account_is_told_once_a_slot_at_each_level(local: LocalNode, listener: Listener) -> None:
    """Nothing at the start; then the contents at the end of the slot, when the slot reaches the level, not before."""
    payer, to = local.wallet(), Pubkey.new_unique()
    ids = [
        listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **level})
        for level in (PROCESSED, CONFIRMED, FINALIZED)
    ]
    assert listener.told() == []
    slot = local.land(local.transfer(payer, to, 2_000_000)).slot
    local.land(local.transfer(payer, to, 1_000_000))
    assert listener.told() == []
    start_write(local)
    for identifier, step in zip(ids, (lambda: None, lambda: end_write(local), lambda: local.beat(3)), strict=True):
        step()
        (told,) = listener.told()
        assert told["method"] == "accountNotification" and told["params"]["subscription"] == identifier
        assert told["params"]["result"]["context"] == {"slot": slot}
        assert told["params"]["result"]["value"]["lamports"] == 3_000_000
    local.finalize()
    assert listener.told() == []


def test_each_level_tells_what_the_account_held_then(local: LocalNode, listener: Listener) -> None:
    """Writes of later slots do not show through at finalized."""
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


def test_an_account_that_is_closed_is_told(local: LocalNode, listener: Listener) -> None:
    """With nothing in it."""
    payer = local.wallet(2_000_000)
    listener.subscribe("accountSubscribe", str(payer.pubkey()), {"encoding": "base64", **CONFIRMED})
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000 - 5_000))
    local.beat()
    ((_, value),) = listener.values()
    assert value["lamports"] == 0 and value["data"] == ["", "base64"]


def test_a_write_before_the_subscription_is_told_when_final(local: LocalNode, listener: Listener) -> None:
    """What has not reached the level yet is still news there; what has is not."""
    payer, to = local.wallet(), Pubkey.new_unique()
    slot = local.land(local.transfer(payer, to, 2_000_000)).slot
    local.beat()
    listener.subscribe("accountSubscribe", str(to), CONFIRMED)
    listener.subscribe("accountSubscribe", str(to), {"encoding": "base64"})
    local.finalize()
    assert [slot for slot, _ in listener.values()] == [slot]


def test_the_clock_ticks_for_its_listeners(local: LocalNode, listener: Listener) -> None:
    """Accounts that the chain itself writes are told like others."""
    listener.subscribe("accountSubscribe", str(SYSVAR_CLOCK), {"encoding": "jsonParsed", **PROCESSED})
    local.beat(3)
    ticks = [value["data"]["parsed"]["info"]["slot"] for _, value in listener.values()]
    assert len(ticks) >= 2 and ticks == sorted(set(ticks))


def test_a_program_tells_its_accounts_that_pass(local: LocalNode, listener: Listener) -> None:
    """By owner and filters; each account is a notification of its own."""
    wallet = Pubkey.new_unique()
    everything = listener.subscribe("programSubscribe", str(TOKEN_PROGRAM), {"encoding": "jsonParsed", **CONFIRMED})
    filters = [{"dataSize": 165}, {"memcmp": {"offset": 32, "bytes": str(wallet)}}]
    own = listener.subscribe("programSubscribe", str(TOKEN_PROGRAM), {"filters": filters, **CONFIRMED})
    local.faucet.fund(wallet, 10**9, 5_000_000)
    local.beat()
    told = listener.told()
    assert {message["method"] for message in told} == {"programNotification"}
    found = [message["params"] for message in told]
    by_own = [params["result"]["value"] for params in found if params["subscription"] == own]
    config = {"encoding": "base64", **CONFIRMED}
    (token_account,) = get_token_accounts_by_owner(local.node, [str(wallet), {"mint": str(USDC_MINT)}, config])["value"]
    assert [value["pubkey"] for value in by_own] == [token_account["pubkey"]]
    parsed = [params["result"]["value"] for params in found if params["subscription"] == everything]
    assert {value["account"]["data"]["parsed"]["type"] for value in parsed} == {"account", "mint"}
    local.beat()
    assert listener.told() == []


# Logs and signatures.


def test_logs_are_told_at_once_and_at_each_level(local: LocalNode, listener: Listener) -> None:
    """At processed with the landing; at the others when the slot gets there. Failures are told as well."""
    payer = local.wallet()
    ids = [listener.subscribe("logsSubscribe", "all", level) for level in (PROCESSED, CONFIRMED, NOWHERE)]
    good = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    bad = local.land(local.transfer(payer, Pubkey.new_unique(), 10**12))
    expected = [(record.slot, record.signature, record.meta.err) for record in (good, bad)]
    for identifier, step in zip(ids, (lambda: None, local.beat, local.finalize), strict=True):
        step()
        results = listener.results(identifier)
        told = [(result["context"]["slot"], result["value"]["signature"], result["value"]["err"]) for result in results]
        assert told == expected


def test_logs_by_mention_find_any_key(local: LocalNode, listener: Listener) -> None:
    """Payer, receiver or program; transactions without the key are not told."""
    payer, to = local.wallet(), Pubkey.new_unique()
    listener.subscribe("logsSubscribe", {"mentions": [str(to)]}, CONFIRMED)
    listener.subscribe("logsSubscribe", {"mentions": [str(to)]}, PROCESSED)
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    wanted = local.land(local.transfer(payer, to, 2_000_000))
    local.beat()
    assert [value["signature"] for _, value in listener.values()] == [wanted.signature] * 2


@pytest.mark.parametrize("level", [PROCESSED, CONFIRMED, FINALIZED])
def test_a_signature_is_told_once_and_is_over(local: LocalNode, listener: Listener, level: dict[str, str]) -> None:
    """At its level, and then the server has forgotten the subscription."""
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    signature = str(transaction.signatures[0])
    identifier = listener.subscribe("signatureSubscribe", signature, level)
    slot = local.land(transaction).slot
    if level is not PROCESSED:
        assert listener.told() == []
    local.beat()
    if level is FINALIZED:
        assert listener.told() == []
    local.finalize()
    assert listener.values() == [(slot, {"err": None})]
    assert listener.error("signatureUnsubscribe", identifier) == (-32602, "Invalid subscription id.")


def test_a_failed_signature_is_told_with_its_error(local: LocalNode, listener: Listener) -> None:
    """It landed, so it is told; the error is the one of getSignatureStatuses."""
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 10**12)
    listener.subscribe("signatureSubscribe", str(transaction.signatures[0]), CONFIRMED)
    local.land(transaction)
    local.beat()
    ((_, value),) = listener.values()
    assert value == {"err": {"InstructionError": [0, {"Custom": 1}]}}


@pytest.mark.parametrize("age", [0, 1, 4, 310])
def test_a_signature_that_landed_before_is_told_at_once(local: LocalNode, listener: Listener, age: int) -> None:
    """After the reply; however long ago, from memory or from the archive. Upstream would be silent for ever."""
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    local.beat(age)
    listener.hear({"jsonrpc": "2.0", "id": 1, "method": "signatureSubscribe", "params": [record.signature, PROCESSED]})
    reply, told = listener.queued()
    assert '"id":1' in reply and '"value":{"err":null}' in told


def test_a_signature_that_landed_before_waits_for_its_level(local: LocalNode, listener: Listener) -> None:
    """Neither lost nor told too early."""
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    local.beat()
    listener.subscribe("signatureSubscribe", record.signature)
    assert listener.told() == []
    local.finalize()
    assert listener.values() == [(record.slot, {"err": None})]


def test_receipt_is_told_where_asked_for(local: LocalNode, listener: Listener) -> None:
    """A bare string before the outcome, which does not end the subscription; also for what never lands."""
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    signature = str(transaction.signatures[0])
    asked = listener.subscribe("signatureSubscribe", signature, {"enableReceivedNotification": True, **PROCESSED})
    listener.subscribe("signatureSubscribe", signature, CONFIRMED)
    local.chain.gates.append(lambda decoded, source: False)
    local.chain.submit(bytes(transaction), Source.RPC)
    (received,) = listener.told()
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
    """A slot when it opens, with its parent and the root; a root when it is final; skipped slots are not told."""
    slots = listener.subscribe("slotSubscribe")
    roots = listener.subscribe("rootSubscribe")
    first = local.chain.levels.building.slot
    local.beat(1, skip=2)
    local.beat(1)
    told = listener.told()
    opened = [message["params"]["result"] for message in told if message["params"]["subscription"] == slots]
    assert [(slot["parent"], slot["slot"]) for slot in opened] == [(first, first + 3), (first + 3, first + 4)]
    reached = [message["params"]["result"] for message in told if message["params"]["subscription"] == roots]
    assert reached == [reached[0], reached[0] + 1] and reached[-1] == local.call("getSlot")
    assert {message["method"] for message in told} == {"slotNotification", "rootNotification"}


def test_updates_follow_a_slot_through_its_life(local: LocalNode, listener: Listener) -> None:
    """From its first piece to its root."""
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


def test_blocks_are_told_at_their_level(local: LocalNode, listener: Listener) -> None:
    """Every block once, empty ones too; by mention only those with the key. Finalized ones come from the archive."""
    payer, to = local.wallet(), Pubkey.new_unique()
    version = {"maxSupportedTransactionVersion": 0, "transactionDetails": "signatures"}
    confirmed = listener.subscribe("blockSubscribe", "all", version | CONFIRMED)
    finalized = listener.subscribe("blockSubscribe", {"mentionsAccountOrProgram": str(to)}, version)
    record = local.land(local.transfer(payer, to, 2_000_000))
    local.beat(2)
    told = listener.results(confirmed)
    assert [len(result["value"]["block"]["signatures"]) for result in told] == [1, 0]
    assert [result["context"]["slot"] for result in told] == [record.slot, record.slot + 1]
    local.finalize()
    (result,) = listener.results(finalized)
    assert result["value"]["block"]["signatures"] == [record.signature]


def test_everything_decodes_in_a_client(local: LocalNode, listener: Listener) -> None:
    """What a whole payment tells, read by the types of an independent library."""
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
    """Seal the slot being built as the last block of a fork that is lost."""
    local.clock.advance(0.4)
    local.chain.seal(local.clock.now(), local.clock.monotonic(), fork_end=ForkEnd(first, is_dead))


def test_a_lost_fork_is_told_as_nodes_tell_it(local: LocalNode, listener: Listener) -> None:
    """Processed hears the transaction and then the old contents again; confirmed never hears of it; the next slot
    has the parent below the fork."""
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 2_000_000)
    signature = str(transaction.signatures[0])
    processed = listener.subscribe("accountSubscribe", str(payer.pubkey()), {"encoding": "base64", **PROCESSED})
    confirmed = listener.subscribe("accountSubscribe", str(payer.pubkey()), {"encoding": "base64", **CONFIRMED})
    new = listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **PROCESSED})
    heard = listener.subscribe("logsSubscribe", {"mentions": [str(to)]}, PROCESSED)
    waits = listener.subscribe("signatureSubscribe", signature, CONFIRMED)
    slots = listener.subscribe("slotSubscribe")
    first = local.land(transaction).slot
    lose_fork(local, first)
    local.beat(3)
    told: dict[int, list[Any]] = {}
    for message in listener.told():
        told.setdefault(message["params"]["subscription"], []).append(message["params"]["result"])
    assert [(result["context"]["slot"], result["value"]["lamports"]) for result in told[processed]] == [
        (first, 10**9 - 2_005_000),
        (first + 1, 10**9),
    ]
    assert [result["context"]["slot"] for result in told[new]] == [first]
    assert len(told[heard]) == 1
    assert confirmed not in told and waits not in told
    assert told[slots][0]["slot"] == first + 1 and told[slots][0]["parent"] == first - 1
    local.land(transaction)
    local.beat()
    assert listener.results(waits)[0]["value"] == {"err": None}


def test_a_dead_block_is_told_as_dead_and_not_as_complete(local: LocalNode, listener: Listener) -> None:
    updates = listener.subscribe("slotsUpdatesSubscribe")
    slot = local.chain.levels.building.slot
    lose_fork(local, slot, is_dead=True)
    local.beat()
    of_slot = [result for result in listener.results(updates) if result["slot"] == slot]
    assert [result["type"] for result in of_slot] == ["dead"]
    assert of_slot[0]["err"] == DEAD_BLOCK


def test_a_silent_node_keeps_the_connection_and_tells_nothing(local: LocalNode, listener: Listener) -> None:
    """What was missed is lost, also the last word on a signature; afterwards the stream goes on."""
    payer, to = local.wallet(), Pubkey.new_unique()
    listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **CONFIRMED})
    local.node.faults.set(read_plan({"streams": {"pubsub": {"silent": True}}}))
    local.land(local.transfer(payer, to, 2_000_000))
    local.beat(2)
    assert listener.told() == [] and not listener.connection.is_cut
    local.node.faults.set(read_plan({}))
    local.land(local.transfer(payer, to, 3_000_000))
    local.beat()
    assert [value["lamports"] for _, value in listener.values()] == [5_000_000]


def test_a_node_that_lags_tells_late(local: LocalNode, listener: Listener) -> None:
    """The same notifications, in the same order, that many slots later."""
    payer, to = local.wallet(), Pubkey.new_unique()
    identifier = listener.subscribe("accountSubscribe", str(to), {"encoding": "base64", **CONFIRMED})
    local.node.faults.set(read_plan({"node": {"lag_slots": 3}}))
    slot = local.land(local.transfer(payer, to, 2_000_000)).slot
    told = []
    for _ in range(5):
        local.beat()
        told.append([result["context"]["slot"] for result in listener.results(identifier)])
    assert told == [[], [], [], [slot], []]


def test_a_lag_beyond_what_is_kept_leaves_blocks_out(local: LocalNode, listener: Listener) -> None:
    """A block that is cleaned up before it is told is not told; the stream goes on."""
    blocks = listener.subscribe("blockSubscribe", "all", FINALIZED | {"transactionDetails": "none"})
    local.node.faults.set(read_plan({"node": {"lag_slots": 30}}))
    first = local.chain.levels.building.slot
    local.beat(20)
    local.journal.prune(first + 10)
    local.beat(30)
    told = [result["context"]["slot"] for result in listener.results(blocks)]
    assert told[0] == first + 10 and told[-1] > first + 12
