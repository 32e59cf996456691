"""Orders of the market's wallets: they read the chain as it is now."""

from solders.keypair import Keypair

from actors.launch_programs import addresses, pdas
from actors.launch_programs.instructions import Kind
from devnode.market.market_orders import Orders, wrapping, wsol_account
from tests.devnode.pad import SOL, Pad


def test_orders_follow_the_state_of_the_chain(pad: Pad) -> None:
    """An account is made once; a mayhem coin pays its own fee recipients; wrapped SOL is counted."""
    orders, user, mint = Orders(pad.local.chain.vm), pad.user.pubkey(), Keypair()
    coin, creation = orders.creation(user, "mayhem", mint.pubkey(), "Some")
    assert pad.land(creation, signers=(mint,)).err is None
    assert (coin.program, orders.tokens(user, coin)) == (addresses.TOKEN_2022_PROGRAM, 0)
    (account,) = orders.token_account(user, coin)
    trade = orders.curve_trade(user, coin, Kind.BUY_EXACT_SOL_IN, SOL, 1)
    assert trade.accounts[1].pubkey in addresses.RESERVED_FEE_RECIPIENTS
    assert pad.land(account, trade).err is None
    assert orders.token_account(user, coin) == [] and orders.tokens(user, coin) > 0
    assert pad.land(*wrapping(user, 3 * SOL)).err is None
    assert orders.wsol(user) == pad.tokens(wsol_account(user)) == 3 * SOL


def test_a_coin_knows_its_quote(pad: Pad) -> None:
    """Only coins in SOL are traded: amounts of others are no SOL."""
    orders, user = Orders(pad.local.chain.vm), pad.user.pubkey()
    for kind, in_sol in (("classic", True), ("v2", True), ("mayhem", True), ("usdc", False)):
        mint = Keypair()
        coin, creation = orders.creation(user, kind, mint.pubkey(), kind)
        assert coin.in_sol == in_sol
        assert pad.land(creation, signers=(mint,)).err is None
        assert (orders.curve(coin).curve_type == "classic") == in_sol
        assert pad.local.chain.vm.account(pdas.bonding_curve(mint.pubkey())) is not None
