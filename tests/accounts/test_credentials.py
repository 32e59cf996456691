import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import OpenSession, OwnerUnavailable, ReadAccount
from actors.calls import ProvenProof, SessionProof
from actors.errors import Err
from actors.identity.credentials import token_hash
from actors.units import routing_bytes, shard_of
from tests.accounts.making import ALICE, BOB, hold, key_proof, operation
from tests.accounts.shards import World, ask


async def session(world: World, shard: AccountShard, pubkey: bytes) -> SessionProof:
    answer = await shard.ask(OpenSession(pubkey, b"challenge of " + pubkey, world.clock.now()))
    assert answer.value is not None
    return SessionProof(token_hash(answer.value), routing_bytes(pubkey))


async def test_each_credential_finds_its_account(world: World, shard: AccountShard) -> None:
    key = await world.customer(shard, ALICE, 10)
    for proof in (key, world.wallet(ALICE), await session(world, shard, ALICE), ProvenProof(ALICE)):
        successor = await world.shard()
        assert successor._credentials.known(proof) is None
        account = await successor._credentials.find(proof)
        assert not isinstance(account, Err) and account.pubkey == ALICE
        assert successor._credentials.known(proof) is account
        await successor.stop()


async def test_what_is_unknown_is_refused_by_kind(world: World, shard: AccountShard) -> None:
    """A bad key or token is 401; a good signature or session without an account is 402."""
    find = shard._credentials.find
    assert await find(key_proof(BOB)) is Err.AUTH_FAILED
    assert await find(SessionProof(b"x" * 32, routing_bytes(BOB))) is Err.AUTH_FAILED
    assert await find(world.wallet(BOB)) is Err.PAYMENT_REQUIRED
    assert await find(ProvenProof(BOB)) is Err.PAYMENT_REQUIRED
    assert await find(await session(world, shard, BOB)) is Err.PAYMENT_REQUIRED


async def test_a_replaced_key_is_refused_at_once(world: World, shard: AccountShard) -> None:
    old = await world.customer(shard, ALICE, 10)
    new = await world.customer(shard, ALICE)
    assert shard._credentials.known(old) is None
    assert await shard._credentials.find(old) is Err.AUTH_FAILED
    account = await shard._credentials.find(new)
    assert not isinstance(account, Err)


async def test_another_owners_account_is_not_touched(world: World, shard: AccountShard) -> None:
    shard.held.drop([shard_of(ALICE)])
    with pytest.raises(OwnerUnavailable):
        await shard._credentials.find(key_proof(ALICE))
    with pytest.raises(OwnerUnavailable):
        await shard._credentials.find(key_proof(ALICE), keep=False)


async def test_a_nonce_cannot_be_used_between_call_and_request(world: World, shard: AccountShard) -> None:
    """One set of nonces for everything that a wallet signs."""
    await world.customer(shard, ALICE, 10)
    proof = world.wallet(ALICE)
    assert (await ask(shard.hold_now, hold(1, 1, proof=proof))).refusal is None
    assert (await shard.ask(ReadAccount(proof))).refusal == "NONCE_REUSED"
    assert await shard._credentials.take_nonce(proof, operation(2), 100) is Err.NONCE_REUSED
    assert await shard._credentials.take_nonce(key_proof(), operation(3), 100) is None
