from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, curve_math, pdas
from actors.launch_programs.accounts import SLOTS
from actors.launch_programs.events import CompleteEvent, TradeEvent
from actors.launch_programs.fee_schedule import Rates
from actors.launch_programs.instructions import EXACT_IN, SELLS, TRADES, V3_TRADES, Kind
from devnode.encoding.addresses import USDC_MINT
from devnode.launchpad import calls
from tests.devnode.pad import SOL, Pad, events

RATES = Rates(95, 30)
NOBODY = Pubkey.from_bytes(b"\x07" * 32)


def held(pad: Pad, mint: Pubkey) -> int:
    return pad.tokens(pad.keys(mint)["user_base"])


@pytest.mark.parametrize("create", [Kind.CREATE, Kind.CREATE_V2])
@pytest.mark.parametrize("buy", [Kind.BUY, Kind.BUY_V2, Kind.BUY_V3])
def test_an_exact_out_buy_costs_the_amount_of_the_formula(pad: Pad, create: Kind, buy: Kind) -> None:
    """In all three families, tokens, all balances, the curve and the event are exact."""
    mint, amount = pad.coin(create), 3_520_371_073_923
    keys, before = pad.keys(mint), pad.curve(mint)
    wanted = curve_math.buy_exact_out(before, amount, RATES)
    assert wanted is not None and wanted.net_quote == 98_750_018
    receivers = ("buyback", "fee_recipient", "creator_vault")
    lamports = {name: pad.lamports(keys[name]) for name in (*receivers, "bonding_curve", "user", "user_volume")}
    meta = pad.land(pad.trade(mint, buy, amount, wanted.total_cost))
    assert meta.err is None and held(pad, mint) == amount
    gained = {name: pad.lamports(keys[name]) - had for name, had in lamports.items()}
    half = wanted.protocol_fee // 2
    assert gained["buyback"] == half
    if buy is Kind.BUY_V3:
        kept = wanted.creator_fee + wanted.protocol_fee - half
        assert gained["bonding_curve"] == wanted.net_quote + kept and gained["fee_recipient"] == 0
        assert pad.curve(mint).creator_fee_bucket == wanted.creator_fee
        assert pad.curve(mint).protocol_fee_bucket == wanted.protocol_fee - half
    else:
        assert gained["bonding_curve"] == wanted.net_quote
        assert gained["fee_recipient"] == wanted.protocol_fee - half
        assert gained["creator_vault"] == wanted.creator_fee + 890_880
    assert gained["user_volume"] == 1_844_400
    assert sum(gained.values()) == -meta.fee_lamports
    after = curve_math.after_buy(before, wanted)
    bare = replace(pad.curve(mint), creator_fee_bucket=0, protocol_fee_bucket=0)
    assert bare == after
    (event,) = events(meta)
    assert isinstance(event, TradeEvent) and event.is_buy and event.ix_name == "buy"
    assert (event.sol_amount, event.quote_amount, event.token_amount) == (98_750_018, 98_750_018, amount)
    assert (event.fee, event.creator_fee, event.buyback_fee) == (938_126, 296_251, half)
    assert event.virtual_sol_reserves == after.virtual_quote_reserves
    assert event.fee_recipient == (addresses.ZERO_KEY if buy is Kind.BUY_V3 else keys["fee_recipient"])


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind in EXACT_IN])
def test_an_exact_in_buy_spends_the_budget_and_no_more(pad: Pad, kind: Kind) -> None:
    """A buy for 3 SOL from a new curve equals one that landed on the chain."""
    mint = pad.coin()
    meta = pad.land(pad.trade(mint, kind, 3 * SOL, 96_449_438_144_093))
    assert meta.err is None and held(pad, mint) == 96_449_438_144_093
    (event,) = events(meta)
    assert isinstance(event, TradeEvent) and event.sol_amount + event.fee + event.creator_fee == 3 * SOL
    assert event.ix_name == "buy_exact_sol_in"
    assert pad.error(pad.trade(mint, kind, SOL, 10**15)) == 6042
    assert pad.error(pad.trade(mint, kind, 2, 0)) == 6041


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind in SELLS])
def test_a_sale_has_the_proceeds_of_the_formula(pad: Pad, kind: Kind) -> None:
    mint, amount = pad.launch(), 10**12
    pad.land(pad.base_account(mint), pad.trade(mint, Kind.BUY, 5 * 10**12, SOL))
    before = pad.curve(mint)
    wanted = curve_math.sell(before, amount, RATES)
    assert wanted is not None
    keys, user = pad.keys(mint), pad.user.pubkey()
    had = pad.lamports(user)
    meta = pad.land(pad.trade(mint, kind, amount, wanted.proceeds))
    assert meta.err is None and held(pad, mint) == 4 * 10**12
    assert pad.lamports(user) == had + wanted.proceeds - meta.fee_lamports
    bare = replace(pad.curve(mint), creator_fee_bucket=0, protocol_fee_bucket=0)
    assert bare == curve_math.after_sell(before, wanted)
    assert pad.tokens(keys["curve_base"]) == 10**15 - 4 * 10**12
    (event,) = events(meta)
    assert isinstance(event, TradeEvent) and not event.is_buy and event.ix_name == "sell"
    assert event.sol_amount == wanted.net_quote
    assert pad.error(pad.trade(mint, kind, amount, wanted.proceeds)) == 6003
    assert pad.error(pad.trade(mint, kind, 10**13, 0)) == 6023
    assert pad.error(pad.trade(mint, kind, 0, 0)) == 6022


@pytest.mark.parametrize(
    ("kind", "amount", "limit", "code"),
    [
        *((kind, 0, SOL, 6020) for kind in (Kind.BUY, Kind.BUY_V2, Kind.BUY_V3, Kind.BUY_EXACT_SOL_IN)),
        *((kind, 10**12, 1, 6002) for kind in (Kind.BUY, Kind.BUY_V2, Kind.BUY_V3)),
        *((kind, 793_100 * 10**9 + 1, 2**64 - 1, 6021) for kind in (Kind.BUY, Kind.BUY_V2, Kind.BUY_V3)),
        *((kind, 2**64 - 1, 2**64 - 1, 6021) for kind in (Kind.BUY, Kind.BUY_V2, Kind.BUY_V3)),
    ],
)
def test_invalid_buys_are_refused(pad: Pad, kind: Kind, amount: int, limit: int, code: int) -> None:
    mint = pad.coin()
    assert pad.error(pad.trade(mint, kind, amount, limit)) == code


def test_wrong_accounts_are_refused_by_name(pad: Pad) -> None:
    """Wrong: a recipient of another list, another creator's vault, another coin's curve, another user's tokens."""
    mint, other = pad.coin(), pad.launch(name="Other")
    normal, reserved = addresses.NORMAL_FEE_RECIPIENTS[0], addresses.RESERVED_FEE_RECIPIENTS[0]
    wrong: list[tuple[Kind, dict[str, Pubkey], int]] = [
        (Kind.BUY, {"fee_recipient": reserved}, 6000),
        (Kind.BUY, {"buyback": normal}, 6057),
        (Kind.BUY, {"bonding_curve_v2": NOBODY}, 6074),
        (Kind.BUY, {"creator_vault": NOBODY}, 2006),
        (Kind.BUY, {"global": NOBODY}, 2006),
        (Kind.BUY, {"bonding_curve": pdas.bonding_curve(other)}, 2006),
        (Kind.BUY, {"user_base": NOBODY}, 2009),
        (Kind.BUY, {"base_program": addresses.TOKEN_PROGRAM}, 3008),
        (Kind.BUY_V2, {"quote_mint": USDC_MINT}, 2006),
        (Kind.BUY_V2, {"user_volume": NOBODY}, 2006),
        (Kind.BUY_V3, {"buyback_v3": normal}, 6057),
        (Kind.BUY, {"mint": NOBODY}, 3012),
        (Kind.BUY, {"mint": USDC_MINT}, 3012),
    ]
    for kind, accounts, code in wrong:
        assert pad.error(pad.trade(mint, kind, 10**9, SOL, **accounts)) == code, accounts


def test_missing_accounts_and_flags_are_refused(pad: Pad) -> None:
    """Refused: a legacy trade without its trailing accounts, and one with read-only accounts."""
    mint = pad.coin()
    whole = pad.trade(mint, Kind.BUY, 10**9, SOL)
    short = [(18, None), (17, 6062), (16, 6074), (15, 3005), (0, 3005)]
    for count, code in short[1:]:
        assert pad.error(Instruction(whole.program_id, whole.data, whole.accounts[:count])) == code
    for index, slot in enumerate(SLOTS[Kind.BUY]):
        if slot.writable and not slot.signer:
            meta = whole.accounts[index]
            accounts = [*whole.accounts]
            accounts[index] = AccountMeta(meta.pubkey, meta.is_signer, False)
            assert pad.error(Instruction(whole.program_id, whole.data, accounts)) == 2000, slot
    stranger = pad.local.wallet(SOL)
    keys = pad.keys(mint, stranger.pubkey())
    accounts = [AccountMeta(keys[slot.name], False, slot.writable) for slot in SLOTS[Kind.BUY]]
    assert pad.error(Instruction(whole.program_id, whole.data, accounts)) == 3010
    assert pad.error(Instruction(whole.program_id, whole.data[:20], whole.accounts)) == 102


def test_a_mayhem_coin_takes_reserved_recipients_only(pad: Pad) -> None:
    mint = pad.coin(is_mayhem=True)
    assert pad.keys(mint)["fee_recipient"] in addresses.RESERVED_FEE_RECIPIENTS
    assert pad.land(pad.trade(mint, Kind.BUY, 10**9, SOL)).err is None
    assert pad.error(pad.trade(mint, Kind.BUY, 10**9, SOL, fee_recipient=addresses.NORMAL_FEE_RECIPIENTS[0])) == 6000


def test_the_last_token_completes_the_curve(pad: Pad) -> None:
    """The last buy has a CompleteEvent, and later trades are refused."""
    mint = pad.coin()
    last = pad.curve(mint).real_token_reserves
    meta = pad.land(pad.trade(mint, Kind.BUY, last, 2**63))
    assert meta.err is None and pad.curve(mint).complete
    trade, complete = events(meta)
    assert isinstance(trade, TradeEvent) and isinstance(complete, CompleteEvent)
    assert complete.bonding_curve == pdas.bonding_curve(mint) and complete.user == pad.user.pubkey()
    for kind in sorted(TRADES, key=lambda kind: kind.name):
        assert pad.error(pad.trade(mint, kind, 10**6, SOL if kind not in SELLS else 0)) == 6005


def test_an_exact_in_buy_can_take_the_rest_of_the_curve(pad: Pad) -> None:
    """A budget above the price of the rest is only spent in part."""
    mint = pad.coin()
    meta = pad.land(pad.trade(mint, Kind.BUY_EXACT_SOL_IN, 150 * SOL, 1))
    assert meta.err is None and pad.curve(mint).complete
    (event, _) = events(meta)
    assert isinstance(event, TradeEvent) and event.sol_amount < 86 * SOL


def test_a_partial_fill_takes_the_rest_of_the_curve(pad: Pad) -> None:
    mint = pad.coin()
    assert pad.error(pad.trade(mint, Kind.BUY_V3, 10**15, 2**63)) == 6021
    assert pad.land(pad.trade(mint, Kind.BUY_V3, 10**15, 2**63, True)).err is None
    assert pad.curve(mint).complete and held(pad, mint) == 793_100 * 10**9


def test_cashback_coins_are_not_imitated(pad: Pad) -> None:
    """They can only come from a loaded dump; the log has the reason of the refusal."""
    mint = pad.coin()
    pad.change_curve(mint, is_cashback_coin=True)
    assert pad.error(pad.trade(mint, Kind.BUY, 10**9, SOL)) == 6056
    assert any("cashback" in line for line in pad.land(pad.trade(mint, Kind.BUY, 10**9, SOL)).logs)
    assert pad.error(pad.trade(mint, Kind.BUY_V3, 10**9, SOL)) == 6094


@pytest.mark.parametrize("size", [49, 81, 83, 115, 151])
def test_trades_extend_older_curves_only_if_necessary(pad: Pad, size: int) -> None:
    """A legacy trade keeps the length; v2 needs 115 bytes and v3 all 166, and the user pays the rent."""
    mint = pad.launch()
    pad.change_curve(mint, size=size)
    pad.land(pad.base_account(mint))
    for kind, length in ((Kind.BUY, size), (Kind.BUY_V2, max(size, 115)), (Kind.BUY_V3, 166)):
        assert pad.land(pad.trade(mint, kind, 10**9, SOL)).err is None, kind
        account = pad.local.chain.vm.account(pdas.bonding_curve(mint))
        assert account is not None and len(account.data) == length
    assert pad.curve(mint).has_creator == (size > 49)


def test_a_coin_without_a_creator_has_no_creator_fee(pad: Pad) -> None:
    mint = pad.coin()
    pad.change_curve(mint, creator=addresses.ZERO_KEY)
    (event,) = events(pad.land(pad.trade(mint, Kind.BUY, 10**9, SOL)))
    assert isinstance(event, TradeEvent) and event.creator_fee == 0
    assert pad.lamports(pad.keys(mint)["creator_vault"]) == 0


def test_a_buy_without_account_or_funds_changes_nothing(pad: Pad) -> None:
    mint = pad.launch()
    assert pad.error(pad.trade(mint, Kind.BUY, 10**9, SOL)) == 3012
    pad.land(pad.base_account(mint))
    pad.change_curve(mint, virtual_quote_reserves=30_000 * SOL)
    assert pad.error(pad.trade(mint, Kind.BUY, 100 * 10**12, 2**63)) == 1  # The system program: not enough lamports.


@pytest.mark.parametrize("kind", [Kind.BUY_V2, Kind.BUY_V3])
def test_a_token_quote_is_paid_in_tokens(pad: Pad, kind: Kind) -> None:
    """For a coin quoted in USDC, creator, recipients and curve get USDC, and no SOL moves."""
    mint = pad.coin(quote=USDC_MINT)
    keys, before = pad.keys(mint), pad.curve(mint)
    if kind is Kind.BUY_V3:  # v3 creates no token accounts.
        assert pad.error(pad.trade(mint, kind, 10**12, 10**8)) == 3012
        make = calls.create_token_account(
            keys["user"], keys["buyback_quote"], keys["buyback"], USDC_MINT, addresses.TOKEN_PROGRAM
        )
        assert pad.land(make).err is None
    wanted = curve_math.buy_exact_out(before, 10**12, RATES)
    assert wanted is not None
    meta = pad.land(pad.trade(mint, kind, 10**12, wanted.total_cost))
    assert meta.err is None and held(pad, mint) == 10**12
    half = wanted.protocol_fee // 2
    kept = wanted.total_cost - wanted.net_quote - half if kind is Kind.BUY_V3 else 0
    assert pad.tokens(keys["curve_quote"]) == wanted.net_quote + kept
    assert pad.tokens(keys["buyback_quote"]) == half
    assert pad.tokens(keys["creator_vault_quote"]) == (0 if kept else wanted.creator_fee)
    (event,) = events(meta)
    assert isinstance(event, TradeEvent) and (event.sol_amount, event.quote_amount) == (0, wanted.net_quote)
    assert event.quote_mint == USDC_MINT and event.virtual_sol_reserves == 0
    if kind is Kind.BUY_V2:
        sold = curve_math.sell(pad.curve(mint), 10**11, RATES)
        had = pad.tokens(keys["user_quote"])
        assert sold is not None and pad.land(pad.trade(mint, Kind.SELL_V2, 10**11, sold.proceeds)).err is None
        assert pad.tokens(keys["user_quote"]) == had + sold.proceeds
        assert pad.error(pad.trade(mint, Kind.BUY, 10**9, 10**9)) == 6063


def test_a_curve_that_stores_wsol_is_paid_in_wsol(pad: Pad) -> None:
    """The buyer creates and funds a WSOL account before the buy and closes it after; unspent lamports return."""
    mint = pad.coin()
    pad.change_curve(mint, quote_mint=addresses.WSOL_MINT)
    keys, user, token = pad.keys(mint), pad.user.pubkey(), addresses.TOKEN_PROGRAM
    wsol = addresses.WSOL_MINT
    curve_account = calls.create_token_account(user, keys["curve_quote"], keys["bonding_curve"], wsol, token)
    assert pad.land(curve_account).err is None
    wrap = [
        calls.create_token_account(user, keys["user_quote"], user, wsol, token, idempotent=True),
        calls.transfer_lamports(user, keys["user_quote"], SOL),
        calls.sync_native(token, keys["user_quote"]),
    ]
    metas = [
        AccountMeta(keys["user_quote"], False, True),
        AccountMeta(user, False, True),
        AccountMeta(user, True, False),
    ]
    close = Instruction(token, b"\x09", metas)
    meta = pad.land(*wrap, pad.trade(mint, Kind.BUY_V2, 10**12, SOL), close)
    assert meta.err is None and held(pad, mint) == 10**12
    wanted = curve_math.buy_exact_out(
        replace(pad.curve(mint), virtual_token_reserves=1_073 * 10**12, virtual_quote_reserves=30 * SOL), 10**12, RATES
    )
    assert wanted is not None and pad.tokens(keys["curve_quote"]) == wanted.net_quote
    assert pad.lamports(keys["user_quote"]) == 0
    assert pad.error(pad.trade(mint, Kind.BUY_V2, 10**9, SOL)) == 3012


@given(
    data=st.binary(max_size=40),
    kind=st.sampled_from(sorted(TRADES | {Kind.CREATE, Kind.CREATE_V2, Kind.MIGRATE_V2}, key=lambda kind: kind.name)),
    names=st.lists(st.sampled_from(["mint", "user", "bonding_curve", "global", "curve_base", "program"]), max_size=30),
    curve=st.binary(max_size=170),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_hostile_transactions_fail_and_never_raise(
    pad: Pad, data: bytes, kind: Kind, names: list[str], curve: bytes
) -> None:
    """With any data, any accounts and any curve contents, the transaction fails and the node does not raise."""
    mint = Keypair().pubkey()
    chain = pad.local.chain
    usdc = chain.vm.account(USDC_MINT)
    assert usdc is not None
    chain.place(mint, usdc)
    chain.place(
        pdas.bonding_curve(mint), Account(10**9, bytes.fromhex("17b7f83760d8ac60") + curve, addresses.PUMP, False, 0)
    )
    keys = {
        "mint": mint,
        "user": pad.user.pubkey(),
        "bonding_curve": pdas.bonding_curve(mint),
        "global": addresses.GLOBAL,
    }
    keys |= {"curve_base": NOBODY, "program": addresses.PUMP}
    metas = [AccountMeta(keys[name], name == "user", name not in ("program", "global")) for name in names]
    meta = pad.land(Instruction(addresses.PUMP, kind.discriminator + data, metas))
    assert meta.err is not None


@given(
    amounts=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    reserves=st.tuples(*[st.integers(0, 2**64 - 1)] * 4),
    kind=st.sampled_from(sorted(TRADES, key=lambda kind: kind.name)),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_number_wraps(pad: Pad, amounts: tuple[int, int], reserves: tuple[int, int, int, int], kind: Kind) -> None:
    """For any 64-bit reserves and amounts, the trade has the formula's amounts or fails without a change."""
    mint = pad.launch()
    pad.land(pad.base_account(mint), pad.trade(mint, Kind.BUY, 10**9, SOL))
    names = ("virtual_token_reserves", "virtual_quote_reserves", "real_token_reserves", "real_quote_reserves")
    address = pdas.bonding_curve(mint)
    account = pad.local.chain.vm.account(address)
    assert account is not None
    numbers = b"".join(number.to_bytes(8, "little") for number in reserves)
    data = account.data[:8] + numbers + account.data[40:]
    pad.local.chain.place(address, Account(10**18, data, addresses.PUMP, False, 0))
    before = pad.curve(mint)
    assert [getattr(before, name) for name in names] == list(reserves)
    meta = pad.land(pad.trade(mint, kind, *amounts))
    after = pad.curve(mint)
    if meta.err is not None:
        assert after == before
    else:
        sign = 1 if kind in SELLS else -1
        moved = sign * (after.virtual_token_reserves - before.virtual_token_reserves)
        assert moved > 0 and sign * (before.virtual_quote_reserves - after.virtual_quote_reserves) >= 0
        assert kind in V3_TRADES or after.creator_fee_bucket == before.creator_fee_bucket
