from dataclasses import replace
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import decode_transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token import instructions as spl
from spl.token import models

from actors.launch_programs import addresses
from actors.launch_programs.accounts import Trader
from actors.launch_programs.curve_account import BondingCurve
from actors.trades import builders
from actors.trades.builders import Recent
from actors.trades.quotes import Disposal, Purchase
from actors.trades.snapshot import CoinState, UnreadableAccountsError, WalletState
from tests.launch_programs.samples import key, sample
from tests.launch_programs.test_accounts import flags
from tests.launch_programs.test_configs import GLOBAL

from .test_quotes import FRESH, MINT, USER, coin

RECENT = Recent(Hash(bytes(range(32))), 100_000)
BOUGHT, SOLD = Purchase(7 * 10**12, 1_050_000_000, 10**9, False), Disposal(10**12, 41_661_260, 39_578_197)
WRAPPED = replace(FRESH, quote_mint=addresses.WSOL_MINT)
INSTRUCTIONS: list[dict[str, Any]] = sample("quote_vectors")["expected"]["instructions"]
COMPUTE_BUDGET = "ComputeBudget111111111111111111111111111111"


def decoded(raw: bytes) -> tuple[VersionedTransaction, list[tuple[str, bytes]]]:
    transaction = VersionedTransaction.from_bytes(raw)
    message = transaction.message
    keys = message.account_keys
    return transaction, [(str(keys[one.program_id_index]), bytes(one.data)) for one in message.instructions]


@pytest.mark.parametrize("wanted", INSTRUCTIONS, ids=lambda wanted: wanted["kind"])
def test_every_whole_instruction_of_the_sdk_is_built(wanted: dict[str, Any]) -> None:
    """All accounts with flags, and the data, byte for byte."""
    listed = {text for text, _ in wanted["accounts"]}
    creator = addresses.ZERO_KEY if wanted["creator"] is None else key(wanted["creator"])
    quote = addresses.WSOL_MINT if wanted["quote"] else addresses.ZERO_KEY
    program = addresses.TOKEN_2022_PROGRAM if wanted["token_2022"] else addresses.TOKEN_PROGRAM
    curve = BondingCurve(1, 1, 1, 1, 1, creator=creator, quote_mint=quote)
    state, wallet = CoinState(key(wanted["mint"]), program, 1, curve, GLOBAL, None), WalletState(key(wanted["user"]))
    recipient = next(one for one in GLOBAL.fee_recipients_of(False) if str(one) in listed)
    buyback = next(one for one in addresses.BUYBACK_FEE_RECIPIENTS if str(one) in listed)
    trader = Trader(wallet.user, recipient, buyback)
    data = bytes.fromhex(wanted["data"])
    amount, limit = (int.from_bytes(data[at : at + 8], "little") for at in (8, 16))
    if "SELL" in wanted["kind"]:
        made = builders.sell_instructions(state, wallet, trader, Disposal(amount, limit, limit))
    else:
        made = builders.buy_instructions(state, wallet, trader, Purchase(amount, limit, limit, False))
    (trade,) = [one for one in made if one.program_id == addresses.PUMP]
    assert trade.data == data
    if wanted["creator"] is not None:
        assert flags(trade) == wanted["accounts"]
    else:  # The vector does not name the creator, so the vault and its token account differ.
        assert sum(ours != theirs for ours, theirs in zip(flags(trade), wanted["accounts"], strict=True)) <= 2


def test_a_classic_buy_is_four_instructions() -> None:
    """Limit, price, the token account, the trade; one empty signature; the wallet pays."""
    raw = builders.buy_transaction(coin(FRESH), WalletState(USER), BOUGHT, RECENT)
    transaction, steps = decoded(raw)
    assert [program for program, _ in steps[:2]] == [COMPUTE_BUDGET] * 2
    assert steps[0][1] == b"\x02" + builders.LEGACY_BUY_UNITS.to_bytes(4, "little")
    assert steps[1][1] == b"\x03" + (100_000).to_bytes(8, "little")
    assert steps[2] == (str(addresses.ASSOCIATED_TOKEN_PROGRAM), b"\x01")
    assert steps[3][0] == str(addresses.PUMP) and len(steps) == 4
    assert [bytes(one) for one in transaction.signatures] == [bytes(64)]
    assert transaction.message.account_keys[0] == USER and transaction.message.recent_blockhash == RECENT.blockhash


def test_the_buy_that_completes_a_curve_may_use_more_units() -> None:
    raw = builders.buy_transaction(coin(FRESH), WalletState(USER), replace(BOUGHT, completes=True), RECENT)
    units = builders.LEGACY_BUY_UNITS + builders.COMPLETION_UNITS
    assert decoded(raw)[1][0][1] == b"\x02" + units.to_bytes(4, "little")


@pytest.mark.parametrize("had", [False, True])
def test_wrapped_sol_is_funded_synced_and_closed(had: bool) -> None:
    """The instructions around the trade equal those of the chain's own library. An account that was there stays."""
    wallet = WalletState(USER, has_wrapped_sol=had)
    wrapped = get_associated_token_address(USER, addresses.WSOL_MINT)
    trader = builders.choose_trader(coin(WRAPPED), USER, 0)
    made = builders.buy_instructions(coin(WRAPPED), wallet, trader, BOUGHT)
    program = addresses.TOKEN_PROGRAM
    close = spl.close_account(models.CloseAccountParams(account=wrapped, dest=USER, owner=USER, program_id=program))
    assert made[0] == spl.create_idempotent_associated_token_account(USER, USER, MINT, program)
    assert made[1] == spl.create_idempotent_associated_token_account(USER, USER, addresses.WSOL_MINT, program)
    assert decode_transfer(made[2]) == {"from_pubkey": USER, "to_pubkey": wrapped, "lamports": BOUGHT.cost_max}
    assert made[3] == spl.sync_native(models.SyncNativeParams(program_id=program, account=wrapped))
    assert closing(made[5:], close) is not had and len(made) == 5 + (not had)
    sold = builders.sell_instructions(coin(WRAPPED), wallet, trader, SOLD)
    assert sold[0] == made[1] and len(sold) == 2 + (not had)
    assert closing(sold[2:], close) is not had


def closing(rest: list[Instruction], close: Instruction) -> bool:
    assert all(one == close for one in rest)
    return bool(rest)


@pytest.mark.parametrize("program", [addresses.TOKEN_PROGRAM, addresses.TOKEN_2022_PROGRAM])
@pytest.mark.parametrize("curve", [FRESH, WRAPPED, replace(FRESH, is_cashback_coin=True)])
def test_every_form_fits_a_packet(program: Pubkey, curve: BondingCurve) -> None:
    """1,232 bytes without a look-up table."""
    state = replace(coin(curve), token_program=program)
    sizes = [
        len(builders.buy_transaction(state, WalletState(USER), BOUGHT, RECENT)),
        len(builders.sell_transaction(state, WalletState(USER), SOLD, RECENT)),
    ]
    assert max(sizes) <= builders.TRANSACTION_BYTES_MAX, sizes


def test_recipients_come_from_the_right_list_and_all_are_used() -> None:
    """Trades are spread over the recipients, as each trade locks one. Mayhem coins have a list of their own."""
    mayhem = coin(replace(FRESH, is_mayhem_mode=True))
    for state, wanted in ((coin(FRESH), GLOBAL.fee_recipients_of(False)), (mayhem, GLOBAL.fee_recipients_of(True))):
        chosen = [builders.choose_trader(state, USER, chance) for chance in range(64)]
        assert {one.fee_recipient for one in chosen} == {one for one in wanted if one != addresses.ZERO_KEY}
        assert {one.buyback for one in chosen} == {
            one for one in GLOBAL.buyback_fee_recipients if one != addresses.ZERO_KEY
        }


def test_a_configuration_without_recipients_builds_nothing() -> None:
    """An older Global has no buyback recipients: a trade without one is refused by the program."""
    empty = replace(GLOBAL, buyback_fee_recipients=(addresses.ZERO_KEY,) * 8)
    with pytest.raises(UnreadableAccountsError):
        builders.choose_trader(replace(coin(FRESH), config=empty), USER, 0)
