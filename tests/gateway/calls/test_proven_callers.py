"""Callers that are proven before a call runs: named by their account, and charged with nothing but a rate unit."""

from actors.calls import Figures, HoldReply, ProvenProof, WalletProof
from actors.errors import Err
from actors.gateway.calls.admission import AdmittedCall, admit
from actors.gateway.calls.jsonrpc import Call
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.proven_callers import ProvenCallers
from actors.identity.credentials import parse_api_key
from tests.gateway.world import World, a_world


def callers_of(world: World) -> ProvenCallers:
    return ProvenCallers(world.accounts, world.door._pipeline)


def block() -> AdmittedCall:
    admitted = admit(Call(b"1", "getBlock", b"[5]", [5]))
    assert isinstance(admitted, AdmittedCall)
    return admitted


async def test_a_proof_names_the_account_and_its_nonce_is_used() -> None:
    async with a_world() as world:
        wallet, callers = await world.customer(100), callers_of(world)
        signed = WalletProof(wallet.pubkey, "n1", world.clock.now())
        held = await callers.proven(signed, None)
        assert isinstance(held, HoldReply) and held.pubkey == wallet.pubkey
        assert held.payer == ProvenProof(wallet.pubkey)
        again = await callers.proven(signed, None)
        assert isinstance(again, Replies) and again.refusal is not None and again.refusal.err is Err.NONCE_REUSED
        assert await world.balance(wallet) == 100


async def test_an_unknown_key_and_an_owner_who_is_away_are_refusals() -> None:
    async with a_world() as world:
        wallet, callers = await world.customer(100), callers_of(world)
        key = parse_api_key(wallet.api_key)
        assert key is not None and isinstance(await callers.proven(key, None), HoldReply)
        wrong = await callers.proven(ProvenProof(bytes(32)), None)
        assert isinstance(wrong, Replies) and wrong.refusal is not None
        world.accounts.down = True
        gone = await callers.proven(key, None)
        assert isinstance(gone, Replies) and gone.refusal is not None
        assert gone.refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE


async def test_a_free_answer_takes_a_rate_unit_and_only_who_could_pay_gets_it() -> None:
    async with a_world(accounts={"requests_per_second": 2}) as world:
        callers = callers_of(world)
        rich, poor = await world.customer(100), await world.customer(24)
        for wallet, wanted in ((rich, None), (rich, None), (rich, Err.RATE_LIMITED), (poor, Err.INSUFFICIENT_CREDITS)):
            held = await callers.proven(ProvenProof(wallet.pubkey), None)
            assert isinstance(held, HoldReply)
            told = await callers.unpaid(block(), held, None)
            if wanted is None:
                assert isinstance(told, Figures) and told.credits_remaining == 100
            else:
                assert isinstance(told, Replies) and told.items[0].refusal is not None
                assert told.items[0].refusal.err is wanted
        assert await world.debits(rich) == [] == await world.debits(poor)
        assert await world.balance(rich) == 100
