"""Settling over a real chain: once, whoever asks; honest when the network is silent; nobody credited for nothing."""

import asyncio
from dataclasses import replace

import base58
import pytest
from solders.hash import Hash

from actors.accounts.api import TakeBackDeposit
from actors.deposits.usdc import transfers
from actors.deposits.x402.network import Trial, Tried
from actors.deposits.x402.settler import TRANSFER_INDEX, Settler
from actors.deposits.x402.states import PaymentState
from actors.upstream import replies
from actors.upstream.signature_status import SignatureStatus
from actors.x402_types import Lack, NotSettled, Settled
from devnode.encoding.addresses import USDC_MINT
from tests.deposits.memory_stores import MemoryPaymentStore
from tests.deposits.x402_world import USDC, FailingPayments, a_payment_world, lack, with_limits

REFUSED = replies.judge(
    b'{"jsonrpc":"2.0","error":{"code":-32003,"message":"Transaction signature verification failure"},"id":1}'
)


async def test_a_payment_is_settled_and_credited_to_its_payer(world):
    """Decisions, "Two ways to pay by x402": on confirmed commitment, to the transfer's authority, at the published
    rate."""
    found = await world.settler.pay(world.standard(100_000), 100_000, "")
    assert isinstance(found, Settled), found
    assert (found.payer, found.amount_base_units) == (str(world.payer.pubkey()), 100_000)
    assert (found.credits_added, found.balance) == (10_000, 10_000)
    assert world.received() == 100_000
    status = world.chain.call("getSignatureStatuses", [found.signature])["value"][0]
    assert status["err"] is None
    (credit,) = world.accounts.credits
    assert (credit.signature, credit.index) == (base58.b58decode(found.signature), TRANSFER_INDEX)


async def test_the_watcher_finds_the_very_transfer_that_was_credited(world):
    """One name for one deposit: what the chain tells of the payment has the index under which it was credited."""
    found = await world.settler.pay(world.standard(100_000), 100_000, "")
    assert isinstance(found, Settled)
    world.chain.finalize()
    told = world.chain.call(
        "getTransaction", found.signature, {"encoding": "json", "maxSupportedTransactionVersion": 0}
    )
    account = transfers.deposit_account(str(world.deposit.pubkey()), str(USDC_MINT))
    executed = transfers.read(told, account)
    (transfer,) = executed.transfers
    assert (transfer.index, transfer.amount, transfer.authority) == (TRANSFER_INDEX, 100_000, found.payer)
    assert transfer.is_wallet and executed.delta == 100_000


async def test_the_sponsor_pays_the_fee_and_the_payer_none(world):
    """A wallet that has no SOL at all can pay."""
    poor = world.chain.wallet(lamports=0, usdc_base_units=USDC)
    found = await world.settler.pay(world.standard(payer=poor), 10_000, "")
    assert isinstance(found, Settled), found
    assert world.chain.call("getBalance", str(poor.pubkey()))["value"] == 0


async def test_the_same_payment_twenty_times_is_settled_once(world):
    """Threat 24: before it confirms, through two replicas at once; signed once, sent once, credited once."""
    raw, other = world.standard(), world.new_settler()
    found = await asyncio.gather(*((world.settler, other)[n % 2].pay(raw, 100_000, "") for n in range(20)))
    settled = [one for one in found if isinstance(one, Settled)]
    assert len(settled) == 1
    assert {one.reason for one in found if isinstance(one, NotSettled)} == {"duplicate_settlement"}
    assert len(world.sponsor.signed) == 1
    assert world.node.count("simulateTransaction") == 1
    assert len(world.accounts.credits) == 1
    assert world.received() == 100_000
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000


async def test_a_repeat_after_the_end_tells_the_signature(world):
    """Once landed a payment is public: repeating it proves nothing about who does, and earns nothing."""
    raw = world.standard()
    first = await world.settler.pay(raw, 100_000, "")
    assert isinstance(first, Settled)
    again = await world.new_settler().pay(raw, 100_000, "")
    assert lack(again) is Lack.DUPLICATE
    assert again.signature == first.signature and not again.may_land
    assert len(world.sponsor.signed) == 1


async def test_a_repeat_while_it_is_under_way_tells_the_signature_that_there_is(world):
    """Nobody signs a second time to find it out."""
    raw = world.standard()
    world.node.before["getSignatureStatuses"] = replies.TIMED_OUT
    first = asyncio.create_task(world.settler.pay(raw, 100_000, ""))
    while not (sent := [record for record in world.store.records.values() if record.signature]):
        await world.sponsor.has_signed.wait()
        await asyncio.sleep(0)
    again = await world.settler.pay(raw, 100_000, "")
    assert lack(again) is Lack.DUPLICATE
    assert base58.b58decode(again.signature) == sent[0].signature
    assert len(world.sponsor.signed) == 1
    assert lack(await first) is Lack.PENDING
    # Threat 25: while it may land, nobody is asked for another one.
    later = await world.settler.pay(raw, 100_000, "")
    assert lack(later) is Lack.DUPLICATE
    assert again.may_land and later.may_land


async def test_what_is_no_payment_is_neither_asked_about_nor_signed(world):
    """The rules come before any question to the node."""
    asked = len(world.node.asked)
    assert lack(await world.settler.pay(world.bare(), 10_000, "")) is Lack.INVALID
    assert lack(await world.settler.pay(b"nonsense", 10_000, "")) is Lack.INVALID
    assert lack(await world.settler.pay(world.self_paid(), 10_000, "")) is Lack.INVALID
    assert len(world.node.asked) == asked and world.sponsor.signed == []


async def test_a_payment_is_claimed_before_a_node_sees_it(world):
    """A payment that nobody has claimed must not be shown around: its simulation is its claimer's alone."""
    call, kept = world.node.call, {}

    async def looking(method, params, timeout_ms):
        kept.setdefault(method, [record.state for record in world.store.records.values()])
        return await call(method, params, timeout_ms)

    world.node.call = looking
    assert isinstance(await world.settler.pay(world.standard(), 10_000, ""), Settled)
    assert kept["getLatestBlockhash"] == [], "asked before, and says nothing of the payment"
    assert (kept["simulateTransaction"], kept["sendTransaction"]) == ([PaymentState.CLAIMED], [PaymentState.SENT])


async def test_a_payer_without_the_money_is_refused_unsigned(world):
    """The simulation says so; the payment is done with, and its wallet pays again at once when it has the money."""
    raw = world.standard(11 * USDC)
    found = await world.settler.pay(raw, 10_000, "")
    assert lack(found) is Lack.REJECTED and found.reason == "insufficient_funds"
    (record,) = world.store.records.values()
    assert (record.state, record.reason, world.sponsor.signed) == (PaymentState.ABANDONED, "insufficient_funds", [])
    simulated = world.node.count("simulateTransaction")
    again = await world.new_settler().pay(raw, 10_000, "")
    assert lack(again) is Lack.DUPLICATE and not again.may_land
    assert world.node.count("simulateTransaction") == simulated
    assert isinstance(await world.settler.pay(world.standard(), 10_000, ""), Settled)


async def test_a_payment_is_worth_what_it_brought_whoever_credited_it(world):
    """Its call may cost so much: the watcher may have been first, and an operator may have given it to another."""
    assert (await world.settler.pay(world.standard(), 10_000, "")).worth == 10_000
    (record,) = world.store.records.values()
    status = SignatureStatus(7, None, confirmed=True, finalized=True)
    later = await world.settler.landed(record, status)
    assert (later.credits_added, later.worth) == (0, 10_000)
    someone = replace(record, payer=bytes(32))
    assert (await world.settler.landed(someone, status)).worth == 0
    await world.accounts.ask(TakeBackDeposit(record.payer, record.signature, TRANSFER_INDEX, "never final"))
    assert (await world.settler.landed(record, status)).worth == 0


async def test_a_blockhash_that_the_node_has_not_seen_yet_is_waited_for(world):
    """The payer asked a node that is ahead: a slot later this one has it too. An unknown one is refused unsigned."""
    simulate, answers = world.network.simulate, [Tried(Trial.NO_BLOCKHASH)]

    async def behind(transaction: bytes) -> Tried:
        return answers.pop() if answers else await simulate(transaction)

    world.network.simulate = behind
    assert isinstance(await world.settler.pay(world.standard(), 10_000, ""), Settled)
    unknown = world.standard(text="unknown", blockhash=Hash.new_unique())
    found = await world.settler.pay(unknown, 10_000, "")
    assert lack(found) is Lack.REJECTED and "BlockhashNotFound" in found.message
    assert len(world.sponsor.signed) == 1


async def test_an_empty_sponsor_signs_nothing(world):
    """503 rather than a payment that could not land."""
    world.chain.land(world.chain.transfer(world.sponsor_keys, world.payer.pubkey(), 10**9 - 5_000))
    assert lack(await world.settler.pay(world.standard(), 10_000, "")) is Lack.UNAVAILABLE
    assert world.sponsor.signed == []


async def test_a_silent_node_is_no_reason_to_sign(world):
    """Nothing was signed; the payer makes a new payment, and may do so at once."""
    world.node.before["simulateTransaction"] = replies.UNREACHABLE
    raw = world.standard()
    assert lack(await world.settler.pay(raw, 10_000, "")) is Lack.UNAVAILABLE
    assert world.sponsor.signed == []
    world.node.before.clear()
    assert lack(await world.settler.pay(raw, 10_000, "")) is Lack.DUPLICATE
    assert isinstance(await world.settler.pay(world.standard(text="a new one"), 10_000, ""), Settled)


@pytest.mark.parametrize("lost", [replies.TIMED_OUT, replies.UNREACHABLE, replies.GARBAGE])
async def test_a_lost_answer_to_the_send_is_not_a_failure(world, lost):
    """Threat 25: it was sent all the same, so it is looked for, found and credited."""
    world.node.after["sendTransaction"] = lost
    found = await world.settler.pay(world.standard(), 10_000, "")
    assert isinstance(found, Settled), found
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000


async def test_an_unknown_verdict_is_pending_with_the_signature(world):
    """Threat 25: neither failed nor credited; the follow-up finds it and credits it once."""
    world.node.before["getSignatureStatuses"] = replies.TIMED_OUT
    found = await world.settler.pay(world.standard(), 10_000, "")
    assert lack(found) is Lack.PENDING and found.reason == "settlement_pending"
    assert base58.b58decode(found.signature) and world.accounts.credits == []
    world.node.before.clear()
    await world.rounds(3)
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000
    assert len(world.accounts.credits) == 1


async def test_the_wait_ends_in_time(world):
    """Decisions, "Two ways to pay by x402": an answer inside about four seconds, whatever the network does."""
    world.node.before["sendTransaction"] = replies.TIMED_OUT
    began = world.clock.monotonic()
    assert lack(await world.settler.pay(world.standard(), 10_000, "")) is Lack.PENDING
    assert world.clock.monotonic() - began <= 4


async def test_a_transaction_that_the_node_refuses_is_closed(world):
    """It was not passed on, and it is not sent again behind the caller's back."""
    world.node.before["sendTransaction"] = REFUSED
    found = await world.settler.pay(world.standard(), 10_000, "")
    assert lack(found) is Lack.REJECTED
    (record,) = world.store.records.values()
    assert record.state is PaymentState.FAILED
    world.node.before.clear()
    sent = world.node.count("sendTransaction")
    await world.rounds(2)
    assert world.node.count("sendTransaction") == sent and world.received() == 0


async def test_a_payment_that_fails_on_the_chain_earns_nothing(world):
    """The payer empties its account between the simulation and the landing: the sponsor's fee is lost, no credit."""
    raw = world.standard(10 * USDC)
    rival = world.chain.signed(world.payer, world.transfer(10 * USDC, world.payer))
    simulate = world.network.simulate

    async def then_drain(transaction: bytes) -> object:
        tried = await simulate(transaction)
        world.chain.land(rival)
        return tried

    world.network.simulate = then_drain
    found = await world.settler.pay(raw, 10_000, "")
    assert lack(found) is Lack.REJECTED and found.signature
    assert world.accounts.credits == []
    await world.rounds(3)
    (record,) = world.store.records.values()
    assert record.state is PaymentState.FAILED and world.accounts.credits == []


async def test_an_owner_that_is_away_credits_later(world):
    """The money is there: the caller hears pending, and the follow-up credits it."""
    world.accounts.down = True
    assert lack(await world.settler.pay(world.standard(), 10_000, "")) is Lack.PENDING
    world.accounts.down = False
    await world.rounds(2)
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000


async def test_what_was_given_up_as_never_signed_is_not_sent(tmp_path):
    """Whoever asks about it hears that it was never sent and pays anew: sent after all, both would land."""

    class Slow(MemoryPaymentStore):
        async def claim(self, record, look_at_ms):
            done = await super().claim(record, look_at_ms)
            await super().move(replace(record, state=PaymentState.ABANDONED), look_at_ms)
            return done

    world = await a_payment_world(tmp_path, store=Slow())
    assert lack(await world.settler.pay(world.standard(), 10_000, "")) is Lack.UNAVAILABLE
    assert world.node.count("sendTransaction") == 0
    (kept,) = world.store.records.values()
    assert kept.state is PaymentState.ABANDONED
    await world.close()


async def test_finalized_can_be_waited_for(tmp_path):
    """The operator's choice of who bears the risk: with it, nothing is credited that could still be taken back."""
    world = await a_payment_world(tmp_path, limits=with_limits(wait_for_finalized=True, wait_ms=30_000))
    found = await world.settler.pay(world.standard(), 10_000, "")
    assert isinstance(found, Settled)
    status = world.chain.call("getSignatureStatuses", [found.signature])["value"][0]
    assert status["confirmationStatus"] == "finalized"
    await world.close()


@pytest.mark.parametrize(("fail", "signed"), [(["before"], 0), (["after"], 0)])
async def test_without_a_claim_nothing_is_signed(tmp_path, fail, signed):
    """Threat 24: what cannot be recorded is not done."""
    store = FailingPayments()
    store.fail = fail
    world = await a_payment_world(tmp_path, store=store)
    assert lack(await world.settler.pay(world.standard(), 10_000, "")) is Lack.UNAVAILABLE
    assert len(world.sponsor.signed) == signed and world.received() == 0
    await world.close()


@pytest.mark.parametrize("failure", ["before", "after"])
async def test_what_may_be_kept_as_signed_is_pending(tmp_path, failure):
    """The store's answer is lost after the signing: nothing is sent here, and nobody is told that it failed."""
    store = FailingPayments()
    store.fail = ["", failure]
    world = await a_payment_world(tmp_path, store=store)
    found = await world.settler.pay(world.standard(), 10_000, "")
    assert lack(found) is Lack.PENDING and found.signature
    assert world.node.count("sendTransaction") == 0
    await world.rounds(5)
    assert await world.accounts.balance(world.payer.pubkey()) == (10_000 if failure == "after" else None)
    assert len(world.sponsor.signed) == 1
    await world.close()


async def test_a_caller_who_leaves_changes_nothing(world):
    """After the claim the payment continues without its payer."""
    task = asyncio.create_task(world.settler.pay(world.standard(), 10_000, ""))
    await world.sponsor.has_signed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await world.settler.drain()
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000


async def test_the_relay_sends_and_credits_nothing(world):
    """Interface, "Payment settlement": sponsored and self-paid; the caller confirms the deposit afterwards."""
    sponsored = await world.settler.relay(world.bare(20_000), "")
    assert isinstance(sponsored, Settled) and sponsored.credits_added == 0
    own = await world.settler.relay(world.self_paid(30_000), "")
    assert isinstance(own, Settled), own
    assert world.received() == 50_000
    assert world.accounts.credits == [] and await world.accounts.balance(world.payer.pubkey()) is None
    assert len(world.sponsor.signed) == 1


async def test_a_self_paid_transaction_that_has_landed_already_is_found(world):
    """Its payer sent it too; the answer says that it is settled."""
    raw = world.self_paid(40_000)
    world.chain.land(world.chain.signed(world.payer, world.transfer(1, world.payer)))
    world.chain.dispatcher.answer(
        b'{"jsonrpc":"2.0","id":1,"method":"sendTransaction","params":["%b"]}' % base58.b58encode(raw)
    )
    world.chain.beat(2)
    assert isinstance(await world.settler.relay(raw, ""), Settled)
    assert world.received() == 40_001


async def test_an_unfunded_self_paid_transaction_is_rejected_by_the_network(world):
    """502 at the door: the transaction is a payment, and the network refuses it."""
    assert lack(await world.settler.relay(world.self_paid(11 * USDC), "")) is Lack.REJECTED


async def test_without_a_sponsor_settlement_is_off(world):
    """Interface: 503, settlement not configured."""
    off = Settler(
        replace(world.rules, sponsor=None), world.limits, None, world.store, world.network, world.accounts, world.clock
    )
    assert lack(await off.pay(world.standard(), 10_000, "")) is Lack.NOT_CONFIGURED
    assert lack(await off.relay(world.self_paid(), "")) is Lack.NOT_CONFIGURED


async def test_the_hint_is_fresh_or_none(world):
    """A stale blockhash would cost the payer its minute."""
    assert world.settler.hint() is None
    await world.settler.refresh_hint()
    hint = world.settler.hint()
    assert hint is not None
    assert world.chain.call("isBlockhashValid", hint.blockhash, {"commitment": "confirmed"})["value"] is True
    world.clock.advance(6)
    assert world.settler.hint() is None
