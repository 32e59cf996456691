from solders.keypair import Keypair
from solders.pubkey import Pubkey

from devnode.block_engine.auction import Failed, Rehearsed, land, refusal, rehearse
from devnode.block_engine.bundles import Fault

from .conftest import Engine, bundle


def test_a_bundle_lands_in_order_in_one_slot(engine: Engine) -> None:
    """Each transaction sees the changes of the one before: the second spends lamports that the first transferred."""
    chain = engine.local.chain
    payer, middle, last = engine.local.wallet(), Keypair(), Pubkey.new_unique()
    first, second = engine.pay(payer, 9_000_000, middle.pubkey()), engine.pay(middle, 2_000_000, last)
    result = land(chain, bundle(first, second, engine.tip(payer)))
    assert isinstance(result, tuple)
    assert [record.position for record in result] == [0, 1, 2]
    assert {record.slot for record in result} == {chain.levels.building.slot}
    account = chain.vm.account(last)
    assert account is not None and account.lamports == 2_000_000


def test_one_failure_keeps_the_whole_bundle_from_landing(engine: Engine) -> None:
    """There is no fee, no record and no changed account, also for the transactions that would succeed."""
    chain = engine.local.chain
    payer, to = engine.local.wallet(), Pubkey.new_unique()
    count = chain.transaction_count
    result = land(chain, bundle(engine.pay(payer, 5_000_000, to), engine.tip(payer), engine.pay(payer, 10**12)))
    assert isinstance(result, Failed) and "custom program error: 0x1" in result.reason
    account = chain.vm.account(payer.pubkey())
    assert account is not None and account.lamports == 10**9
    assert chain.vm.account(to) is None
    assert chain.transaction_count == count and list(chain.open_transactions()) == []


def test_a_tip_below_the_minimum_wins_no_auction(engine: Engine) -> None:
    payer, chain = engine.local.wallet(), engine.local.chain
    assert rehearse(chain, bundle(engine.tip(payer, 1_000))) == Rehearsed(1_000)
    assert rehearse(chain, bundle(engine.tip(payer, 600), engine.tip(payer, 400, account=1))) == Rehearsed(1_000)
    assert isinstance(land(chain, bundle(engine.tip(payer, 999))), Failed)


def test_a_bundle_with_an_absent_payer_fails(engine: Engine) -> None:
    """The runtime refuses such a transaction before any program runs."""
    payer = engine.local.wallet()
    result = land(engine.local.chain, bundle(engine.tip(payer), engine.pay(Keypair())))
    assert isinstance(result, Failed) and "no record of a prior credit" in result.reason


def test_expired_and_landed_transactions_are_refused(engine: Engine) -> None:
    payer, chain = engine.local.wallet(), engine.local.chain
    one, two = bundle(engine.tip(payer)), bundle(engine.tip(payer, 20_000))
    assert refusal(chain, one) is None
    assert isinstance(land(chain, one), tuple)
    assert refusal(chain, one) == Fault("bundle contains an already processed transaction")
    assert isinstance(land(chain, one), Failed)
    chain.expire_blockhashes()
    engine.local.beat()
    chain.expire_blockhashes()
    assert refusal(chain, two) == Fault("bundle contains an expired blockhash")
    assert isinstance(land(chain, two), Failed)
