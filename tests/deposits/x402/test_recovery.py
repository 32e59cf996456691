"""Open payments are carried to their end by whoever is left; what never became final is taken back."""

import asyncio

import base58
import msgspec
import pytest

from actors.accounts.api import CreditDeposit, OwnerReply
from actors.deposits.x402.network import PaymentNetwork
from actors.deposits.x402.states import PaymentKind, PaymentState, Record
from actors.upstream import replies
from actors.x402_types import Settled
from tests.deposits.x402_world import USDC, ChainNode, PaymentWorld, a_payment_world


def the_record(world: PaymentWorld) -> Record:
    (record,) = world.store.records.values()
    return record


async def pay(world: PaymentWorld) -> Settled:
    found = await world.settler.pay(world.standard(), 10_000, "")
    assert isinstance(found, Settled), found
    return found


async def test_a_credited_payment_ends_final(world):
    """And then nobody asks about it any more."""
    await pay(world)
    assert the_record(world).state is PaymentState.CREDITED
    await world.rounds()
    assert the_record(world).state is PaymentState.FINAL
    asked = len(world.node.asked)
    await world.rounds(3)
    assert len(world.node.asked) == asked
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000


async def test_a_payment_that_never_becomes_final_is_taken_back(world):
    """Decisions, "Two ways to pay by x402": an `adjustment`, once, and not before its blockhash is dead for good."""
    settled = await pay(world)
    world.forget(settled.signature)
    await world.rounds(3)
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000
    assert the_record(world).state is PaymentState.CREDITED
    world.chain.beat(320)
    await world.rounds(3)
    assert the_record(world).state is PaymentState.TAKEN_BACK
    assert await world.accounts.balance(world.payer.pubkey()) == 0
    entries = await world.shard._store.entries(bytes(world.payer.pubkey()), 0, 10, False)
    assert [entry.amount for entry in entries] == [-10_000, 10_000]


@pytest.mark.parametrize(
    ("refusal", "state"),
    [
        ("SERVICE_TEMPORARILY_UNAVAILABLE", PaymentState.CREDITED),
        ("ACCOUNT_NOT_FOUND", PaymentState.TAKEN_BACK),  # It was never credited there, so nothing is left to take.
    ],
)
async def test_taking_back_is_tried_again_until_the_owner_has_done_it(world, refusal, state):
    """A payment that is closed before its credits are gone would leave them for ever."""
    settled = await pay(world)
    world.forget(settled.signature)
    world.chain.beat(320)
    ask = world.accounts.ask

    async def refusing(command):
        return OwnerReply(refusal=refusal)

    world.accounts.ask = refusing
    await world.rounds(3)
    assert the_record(world).state is state
    world.accounts.ask = ask
    await world.rounds(2)
    assert the_record(world).state is PaymentState.TAKEN_BACK
    left = await world.accounts.balance(world.payer.pubkey())
    assert left == (0 if state is PaymentState.CREDITED else 10_000)


async def test_while_it_may_still_land_it_is_sent_again(world):
    """A leader that dropped it is no reason to lose it."""
    settled = await pay(world)
    world.forget(settled.signature)
    sent = world.node.count("sendTransaction")
    await world.rounds(2)
    assert world.node.count("sendTransaction") == sent + 2


async def test_a_node_with_little_history_takes_nothing_back(tmp_path):
    """Its silence proves nothing; the operator is told instead."""
    world = await a_payment_world(tmp_path, retention_slots=312)
    settled = await pay(world)
    world.forget(settled.signature)
    world.chain.beat(700)
    await world.rounds(2)
    assert the_record(world).state is PaymentState.UNPROVEN
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000
    await world.close()


async def test_a_silent_node_ends_nothing(world):
    """Neither statuses nor heights: everything stays as it is, however late."""
    await pay(world)
    world.chain.beat(400)
    world.node.before["getSignatureStatuses"] = replies.TIMED_OUT
    await world.rounds(2)
    assert the_record(world).state is PaymentState.CREDITED
    world.node.before = {"getBlockHeight": replies.UNREACHABLE}
    world.forget(base58.b58encode(the_record(world).signature).decode())
    await world.rounds(2)
    assert the_record(world).state is PaymentState.CREDITED


async def test_a_pool_that_lost_sight_takes_nothing_back(world):
    """One node answers for the pool that it knows nothing, from others come heights: a node that knows it is found."""
    settled = await pay(world)
    knowing = ChainNode(world.chain)
    world.forget(settled.signature)
    world.chain.beat(320)
    world.network = PaymentNetwork(world.node, [knowing, ChainNode(world.chain)])
    world.recovery = world.new_recovery()
    await world.rounds(2)
    assert the_record(world).state is PaymentState.FINAL
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000


async def test_a_failure_seen_by_the_follow_up_counts_as_a_lost_fee(world):
    """Its settler had stopped waiting; the fee is lost all the same, and counted before the failure is final."""
    raw = world.standard(10 * USDC)
    rival = world.chain.signed(world.payer, world.transfer(10 * USDC, world.payer))
    send = world.network.send

    async def drained(transaction: bytes) -> object:
        world.chain.land(rival)
        return await send(transaction)

    world.network.send = drained
    world.node.before["getSignatureStatuses"] = replies.TIMED_OUT
    await world.settler.pay(raw, 10_000, "")
    world.node.before.clear()
    assert not the_record(world).fee_lost
    await world.rounds(2)
    assert (the_record(world).state, the_record(world).fee_lost) == (PaymentState.FAILED, True)


async def test_an_owner_that_is_away_is_asked_again(world):
    """The taking back is not forgotten, and it happens once."""
    settled = await pay(world)
    world.forget(settled.signature)
    world.chain.beat(320)
    world.accounts.down = True
    await world.rounds(2)
    assert the_record(world).state is PaymentState.CREDITED
    world.accounts.down = False
    await world.rounds(2)
    assert the_record(world).state is PaymentState.TAKEN_BACK
    assert await world.accounts.balance(world.payer.pubkey()) == 0


async def test_a_payment_that_never_landed_fails_and_earns_nothing(world):
    """Sent into silence until its blockhash died."""
    world.node.before["sendTransaction"] = replies.TIMED_OUT
    await world.settler.pay(world.standard(), 10_000, "")
    world.chain.beat(320)
    await world.rounds(2)
    assert the_record(world).state is PaymentState.FAILED
    assert world.accounts.credits == []


class Killed(BaseException):
    """Stands for the end of the process."""


STEPS = ["claim", "try", "sign", "keep signed", "send", "see", "credit", "keep credited"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_settler_killed_at_any_step_loses_and_repeats_nothing(world, step, moment):
    """Another replica carries on from what is stored: signed once, credited exactly when the money came."""
    _kill_at(world, step, moment)
    with pytest.raises(Killed):
        await world.settler.pay(world.standard(), 10_000, "")
    _revive(world)
    await world.rounds(6)
    received, credited = world.received(), await world.accounts.balance(world.payer.pubkey()) or 0
    assert credited == received // 10
    assert len(world.sponsor.signed) <= 1
    order = STEPS.index(step) - STEPS.index("keep signed")
    assert (received == 100_000) is (order > 0 or (order == 0 and moment == "after"))
    assert not any(record.state.open for record in world.store.records.values())
    # Nobody is left under way in whose way the payer would stand.
    assert isinstance(await world.new_settler().pay(world.standard(text="the next"), 10_000, ""), Settled)


def _kill_at(world: PaymentWorld, step: str, moment: str) -> None:
    """Wrap the step's method so that it ends the settler before or after its work, the first time."""
    holder, name, turn = {
        "claim": (world.store, "claim", 1),
        "try": (world.network, "simulate", 1),
        "sign": (world.settler, "_signed", 1),
        "keep signed": (world.store, "move", 1),
        "send": (world.network, "send", 1),
        "see": (world.network, "statuses", 1),
        "credit": (world.accounts, "ask", 1),
        "keep credited": (world.store, "move", 2),
    }[step]
    real, turns = getattr(holder, name), [turn]

    def counted() -> bool:
        turns[0] -= 1
        return turns[0] == 0

    async def awaited(*arguments: object, **named: object) -> object:
        mine = counted()
        if mine and moment == "before":
            raise Killed
        done = await real(*arguments, **named)
        if mine:
            raise Killed
        return done

    def at_once(*arguments: object) -> object:
        if moment == "after":
            real(*arguments)
        raise Killed

    setattr(holder, name, awaited if asyncio.iscoroutinefunction(real) else at_once)


def _revive(world: PaymentWorld) -> None:
    for holder in (world.store, world.network, world.accounts):
        for name in ("claim", "simulate", "move", "send", "statuses", "ask"):
            holder.__dict__.pop(name, None)
    world.recovery = world.new_recovery(world.new_settler())


async def test_two_replicas_carry_one_payment_once(world):
    """A payment that is due is given to one of them."""
    await pay(world)
    other = world.new_recovery(world.new_settler())
    world.clock.advance(40)
    world.chain.finalize()
    assert sorted(await asyncio.gather(world.recovery.carry_on(), other.carry_on())) == [0, 1]


async def test_relayed_payments_are_finished_too(world):
    """Pending at first, found later; credited by nobody here."""
    world.node.before["getSignatureStatuses"] = replies.TIMED_OUT
    await world.settler.relay(world.bare(), "")
    world.node.before.clear()
    await world.rounds(2)
    record = the_record(world)
    assert (record.kind, record.state) == (PaymentKind.SPONSORED, PaymentState.FINAL)
    assert world.accounts.credits == []


async def test_a_low_sponsor_is_reported(world, caplog):
    """Once in the log of the operator, and for as long as it lasts to whoever asks."""
    await world.recovery.look_at_balance()
    assert world.recovery.sponsor_lamports == 10**9 and not world.recovery.sponsor_low
    world.chain.land(world.chain.transfer(world.sponsor_keys, world.payer.pubkey(), 960_000_000))
    world.chain.finalize()
    await world.recovery.look_at_balance()
    await world.recovery.look_at_balance()
    assert world.recovery.sponsor_low
    assert [record.levelname for record in caplog.records if "is low" in record.message] == ["ERROR"]


async def test_an_unanswered_look_keeps_the_last_word(world):
    """A silent node is no reason to alarm, nor to stop."""
    await world.recovery.look_at_balance()
    world.node.before["getBalance"] = replies.TIMED_OUT
    await world.recovery.look_at_balance()
    assert world.recovery.sponsor_lamports == 10**9


async def test_the_watcher_and_the_settler_credit_a_transfer_once(world):
    """Whoever comes first: the same signature and the same place in the transaction name one deposit."""
    found = await pay(world)
    (credit,) = world.accounts.credits
    again = await world.accounts.ask(CreditDeposit(found.pubkey, msgspec.structs.replace(credit, slot=credit.slot + 1)))
    assert again.value is not None and again.value.already_processed and again.value.credits_added == 0
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000
