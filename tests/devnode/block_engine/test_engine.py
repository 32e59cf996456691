import asyncio

from solders.keypair import Keypair
from solders.message import MessageV1, TransactionConfig
from solders.transaction import VersionedTransaction

from devnode.block_engine.engine import LOOK_BACK_SECONDS
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.faults.plan import read_plan
from devnode.records.blockhashes import BLOCKHASHES_KEPT
from tests.devnode.encoding.test_wire import memo

from .conftest import Engine


def test_the_statuses_of_a_bundle_until_it_is_finalized(engine: Engine) -> None:
    """A bundle is pending until the auction, then landed, then confirmed and finalized with its slot."""
    payer = engine.local.wallet()
    payment, tip = engine.pay(payer), engine.tip(payer)
    identifier = engine.send(payment, tip)
    assert engine.inflight(identifier) == ("Pending", None)
    assert engine.call("getBundleStatuses", [identifier])["value"] == []
    slot = engine.local.chain.levels.building.slot
    engine.engine.auction()
    assert engine.inflight(identifier) == ("Landed", slot)
    for level in ("processed", "confirmed", "finalized"):
        (status,) = engine.call("getBundleStatuses", [identifier])["value"]
        assert status == {
            "bundle_id": identifier,
            "transactions": [str(payment.signatures[0]), str(tip.signatures[0])],
            "slot": slot,
            "confirmation_status": level,
            "err": {"Ok": None},
        }
        engine.local.beat() if level == "processed" else engine.local.finalize()


def test_the_highest_tip_lands_first(engine: Engine) -> None:
    """With equal tips, the earlier bundle lands first."""
    payers = [engine.local.wallet() for _ in range(3)]
    tips = [engine.tip(payer, lamports) for payer, lamports in zip(payers, (10_000, 50_000, 10_000), strict=True)]
    for tip in tips:
        engine.send(tip)
    engine.engine.auction()
    landed = [record.signature for record in engine.local.chain.open_transactions()]
    assert landed == [str(tips[position].signatures[0]) for position in (1, 0, 2)]


def test_a_bundle_may_need_another_of_the_same_auction(engine: Engine) -> None:
    """A bundle that would fail alone is tried last."""
    payer, poor = engine.local.wallet(), Keypair()
    needs = engine.send(engine.tip(poor, 90_000))
    gives = engine.send(engine.pay(payer, 5_000_000, poor.pubkey()), engine.tip(payer))
    engine.engine.auction()
    assert engine.inflight(gives)[0] == engine.inflight(needs)[0] == "Landed"


def test_a_bundle_that_fails_has_failed(engine: Engine) -> None:
    payer = engine.local.wallet()
    payment = engine.pay(payer)
    identifier = engine.send(payment, engine.pay(payer, 10**12), engine.tip(payer))
    engine.engine.auction()
    assert engine.inflight(identifier) == ("Failed", None)
    assert engine.call("getBundleStatuses", [identifier])["value"] == []
    assert not engine.landed(payment)


def test_a_failed_bundle_may_be_sent_again(engine: Engine) -> None:
    """Sent twice before the auction it is one bundle; sent again after it failed, it is a new attempt."""
    payer, poor = engine.local.wallet(), Keypair()
    tip = engine.tip(poor, 90_000)
    identifier = engine.send(tip)
    assert engine.send(tip) == identifier and len(engine.engine._queue) == 1
    engine.engine.auction()
    assert engine.inflight(identifier)[0] == "Failed"
    engine.local.land(engine.pay(payer, 5_000_000, poor.pubkey()))
    assert engine.send(tip) == identifier
    assert engine.inflight(identifier)[0] == "Pending"
    engine.engine.auction()
    assert engine.inflight(identifier)[0] == "Landed"


def test_two_bundles_with_one_transaction_land_once(engine: Engine) -> None:
    payer = engine.local.wallet()
    shared = engine.pay(payer)
    better = engine.send(shared, engine.tip(payer, 50_000))
    worse = engine.send(shared, engine.tip(payer, 20_000))
    engine.engine.auction()
    assert (engine.inflight(better)[0], engine.inflight(worse)[0]) == ("Landed", "Failed")
    assert len(list(engine.local.chain.open_transactions())) == 2


def test_an_unknown_and_an_old_bundle_are_invalid(engine: Engine) -> None:
    """After the look-back of five minutes the in-flight status is Invalid; the landed status stays a while longer."""
    identifier = engine.send(engine.tip(engine.local.wallet()))
    engine.engine.auction()
    assert engine.inflight("0" * 64) == ("Invalid", None)
    engine.local.clock.advance(LOOK_BACK_SECONDS + 1)
    assert engine.inflight(identifier) == ("Invalid", None)
    assert len(engine.call("getBundleStatuses", [identifier])["value"]) == 1
    engine.send(engine.tip(engine.local.wallet()))
    assert engine.call("getBundleStatuses", [identifier])["value"] == []


def test_a_landing_is_known_for_all_of_the_look_back(engine: Engine) -> None:
    """The look-back is longer than the chain keeps statuses, so the slot comes from the archive."""
    tip = engine.tip(engine.local.wallet())
    identifier = engine.send(tip)
    engine.engine.auction()
    slot = engine.local.chain.levels.building.slot
    engine.local.beat(BLOCKHASHES_KEPT + 2)
    assert not engine.landed(tip)
    assert engine.inflight(identifier) == ("Landed", slot)
    (status,) = engine.call("getBundleStatuses", [identifier])["value"]
    assert (status["slot"], status["confirmation_status"]) == (slot, "finalized")


def test_a_dropped_bundle_is_pending_until_its_blockhash_is_old(engine: Engine) -> None:
    """The sender of a dropped bundle gets an id and no error; all of its transactions are dropped."""
    engine.local.node.faults.set(read_plan({"sends": {"bundle": {"drop_share": 1}}}))
    payer = engine.local.wallet()
    payment = engine.pay(payer)
    identifier = engine.send(payment, engine.tip(payer))
    engine.engine.auction()
    assert engine.inflight(identifier) == ("Pending", None) and not engine.landed(payment)
    engine.local.chain.expire_blockhashes()
    engine.local.beat()
    engine.local.chain.expire_blockhashes()
    assert engine.inflight(identifier) == ("Failed", None)


def test_a_delayed_bundle_arrives_whole(engine: Engine) -> None:
    engine.local.node.faults.set(read_plan({"sends": {"bundle": {"delay_share": 1, "delay_slots": 2}}}))
    payer = engine.local.wallet()
    identifier = engine.send(engine.pay(payer), engine.tip(payer))
    engine.engine.auction()
    assert engine.inflight(identifier)[0] == "Pending"
    for _ in range(2):
        engine.local.beat()
        engine.local.node.faults.deliver()
    engine.engine.auction()
    assert engine.inflight(identifier) == ("Landed", engine.local.chain.levels.building.slot)


def test_a_bundle_on_a_lost_fork_has_not_landed(engine: Engine) -> None:
    """Statuses come from the chain, so a lost fork changes a landed bundle back to pending."""
    payer = engine.local.wallet()
    payment = engine.pay(payer)
    identifier = engine.send(payment, engine.tip(payer))
    engine.engine.auction()
    assert engine.inflight(identifier)[0] == "Landed"
    engine.local.lose()
    assert engine.inflight(identifier) == ("Pending", None) and not engine.landed(payment)
    assert engine.call("getBundleStatuses", [identifier])["value"] == []


def test_a_bundle_may_mix_versions(engine: Engine) -> None:
    """A v1 transaction, larger than v0 allows, may be in one bundle with v0."""
    payer = engine.local.wallet()
    config = TransactionConfig(compute_unit_limit=400_000, loaded_accounts_data_size_limit=1_000_000)
    large = MessageV1.try_compile(payer.pubkey(), [memo(3_000)], engine.local.blockhash(), config=config)
    identifier = engine.send(VersionedTransaction(large, [payer]), engine.tip(payer))
    engine.engine.auction()
    assert engine.inflight(identifier)[0] == "Landed"


def test_tip_accounts_exist_on_every_chain(engine: Engine) -> None:
    """The faucet funds only missing tip accounts."""
    vm = engine.local.chain.vm
    count = engine.local.chain.transaction_count
    engine.engine.fund_tip_accounts()
    assert engine.local.chain.transaction_count == count
    vm.put(TIP_ACCOUNTS[2], None)
    engine.engine.fund_tip_accounts()
    account = vm.account(TIP_ACCOUNTS[2])
    assert account is not None and account.lamports == vm.rent_exempt_lamports(0)


async def test_the_running_engine_holds_auctions(engine: Engine) -> None:
    """It also adds the tips of sealed slots to the floor."""
    running = asyncio.create_task(engine.engine.run())
    await asyncio.sleep(0)
    tip = engine.tip(engine.local.wallet(), 30_000)
    engine.send(tip)
    async with asyncio.timeout(10):
        while not engine.landed(tip):  # noqa: ASYNC110 - the chain sets no asyncio event.
            await asyncio.sleep(0.01)
        engine.local.beat()
        while not engine.engine.tips.floor()["landed_tips_50th_percentile"]:  # noqa: ASYNC110 - as above.
            await asyncio.sleep(0.01)
    assert engine.engine.tips.floor()["landed_tips_99th_percentile"] == 30_000e-9
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
