from typing import Any

import pytest
from solders.instruction import Instruction

from actors.launch_programs import addresses
from actors.launch_programs.accounts import (
    CREATE_V2_QUOTE_SLOTS,
    SLOTS,
    Trader,
    create_instruction,
    instruction,
    migrate_keys,
    trade_instruction,
    trade_keys,
)
from actors.launch_programs.curve_account import BondingCurve
from actors.launch_programs.instructions import Kind, TradeArguments, create_arguments, trade_arguments

from .samples import calls, key, sample

INSTRUCTIONS: list[dict[str, Any]] = sample("quote_vectors")["expected"]["instructions"]


def flags(one: Instruction) -> list[list[str]]:
    return [
        [str(meta.pubkey), ("w" if meta.is_writable else "r") + ("s" if meta.is_signer else "")]
        for meta in one.accounts
    ]


@pytest.mark.parametrize("wanted", INSTRUCTIONS, ids=lambda wanted: wanted["kind"])
def test_whole_instructions_equal_those_of_the_sdk(wanted: dict[str, Any]) -> None:
    """All accounts, flags and data bytes are equal."""
    kind = Kind[wanted["kind"]]
    listed = dict(zip((slot.name for slot in SLOTS[kind]), (key(text) for text, _ in wanted["accounts"]), strict=True))
    creator = addresses.WITHDRAW_AUTHORITY if wanted["creator"] is None else key(wanted["creator"])
    quote = addresses.WSOL_MINT if wanted["quote"] else addresses.ZERO_KEY
    curve = BondingCurve(1, 1, 1, 1, 1, creator=creator, quote_mint=quote)
    program = addresses.TOKEN_2022_PROGRAM if wanted["token_2022"] else addresses.TOKEN_PROGRAM
    trader = Trader(key(wanted["user"]), listed["fee_recipient"], listed["buyback"])
    keys = trade_keys(key(wanted["mint"]), program, curve, trader, addresses.TOKEN_PROGRAM)
    if wanted["creator"] is None:  # The vector has only the creator's vault.
        keys |= {name: listed[name] for name in ("creator_vault", "creator_vault_quote")}
    data = bytes.fromhex(wanted["data"])
    arguments = trade_arguments(data)
    assert arguments is not None
    made = trade_instruction(kind, arguments, keys)
    assert flags(made) == wanted["accounts"]
    assert made.data == data and made.program_id == addresses.PUMP


def test_a_launch_and_its_first_buy_equal_the_landed_ones() -> None:
    (created, create_bytes), (bought, buy_bytes), _, _ = calls("pump_create_v2_buy_blocksubscribe")
    arguments, trade = create_arguments(create_bytes), trade_arguments(buy_bytes)
    assert arguments is not None and trade is not None
    made = create_instruction(Kind.CREATE_V2, arguments, key(created[0]), key(created[5]))
    assert [str(meta.pubkey) for meta in made.accounts] == created and made.data == create_bytes
    curve = BondingCurve(1, 1, 1, 1, 1, creator=arguments.creator)
    trader = Trader(key(bought[6]), key(bought[1]), key(bought[17]))
    keys = trade_keys(key(bought[2]), addresses.TOKEN_2022_PROGRAM, curve, trader, addresses.TOKEN_PROGRAM)
    again = trade_instruction(Kind.BUY, trade, keys)
    assert [str(meta.pubkey) for meta in again.accounts] == bought


def test_a_classic_launch_equals_the_landed_one() -> None:
    payload = sample("pump_ix_create")["payload"]
    arguments = create_arguments(bytes.fromhex(payload["data"]))
    assert arguments is not None
    accounts = payload["accounts"]
    made = create_instruction(Kind.CREATE, arguments, key(accounts[0]["pubkey"]), key(accounts[7]["pubkey"]))
    assert [
        {"pubkey": str(meta.pubkey), "is_signer": meta.is_signer, "is_writable": meta.is_writable}
        for meta in made.accounts
    ] == accounts


def test_account_lists_have_their_lengths() -> None:
    """With a missing account, the program's error would name another account."""
    lengths = {
        Kind.BUY: 18,
        Kind.BUY_EXACT_SOL_IN: 18,
        Kind.SELL: 16,
        Kind.BUY_V2: 27,
        Kind.SELL_V2: 26,
        Kind.BUY_EXACT_QUOTE_IN_V2: 27,
        Kind.BUY_V3: 17,
        Kind.BUY_EXACT_QUOTE_IN_V3: 17,
        Kind.SELL_V3: 17,
        Kind.CREATE: 14,
        Kind.CREATE_V2: 16,
        Kind.EXTEND_ACCOUNT: 5,
        Kind.INIT_USER_VOLUME_ACCUMULATOR: 6,
        Kind.MIGRATE: 25,
        Kind.MIGRATE_V2: 27,
    }
    assert {kind: len(slots) for kind, slots in SLOTS.items()} == lengths


def test_a_token_quote_adds_its_accounts() -> None:
    arguments = create_arguments(bytes.fromhex(sample("pump_ix_create")["payload"]["data"]))
    assert arguments is not None
    mint, user = addresses.WSOL_MINT, addresses.WITHDRAW_AUTHORITY
    quote = (addresses.USDC_MINT, addresses.TOKEN_PROGRAM)
    made = create_instruction(Kind.CREATE_V2, arguments, mint, user, quote)
    assert len(made.accounts) == len(SLOTS[Kind.CREATE_V2]) + len(CREATE_V2_QUOTE_SLOTS)
    assert made.accounts[16].pubkey == addresses.USDC_MINT and made.accounts[19].pubkey == addresses.QUOTE_CONTROL


def test_v3_passes_the_buyback_token_account_for_a_token_quote() -> None:
    """For SOL coins it passes the buyback wallet; partial_fill is only encoded if it is set."""
    trader = Trader(addresses.WITHDRAW_AUTHORITY, addresses.ZERO_KEY, addresses.BUYBACK_FEE_RECIPIENTS[0])
    for quote, is_wallet in ((addresses.ZERO_KEY, True), (addresses.USDC_MINT, False)):
        curve = BondingCurve(1, 1, 1, 1, 1, quote_mint=quote)
        keys = trade_keys(addresses.WSOL_MINT, addresses.TOKEN_PROGRAM, curve, trader, addresses.TOKEN_PROGRAM)
        made = trade_instruction(Kind.BUY_V3, TradeArguments(1, 2), keys)
        assert (made.accounts[13].pubkey == trader.buyback) is is_wallet
        assert len(made.data) == 24
    assert len(trade_instruction(Kind.BUY_V3, TradeArguments(1, 2, True), keys).data) == 25


def test_migrations_use_the_canonical_pool() -> None:
    mint, user = addresses.USDC_MINT, addresses.NORMAL_FEE_RECIPIENTS[0]
    keys = migrate_keys(mint, addresses.TOKEN_2022_PROGRAM, user, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM)
    made = instruction(Kind.MIGRATE_V2, Kind.MIGRATE_V2.discriminator, keys)
    assert made.accounts[7].pubkey == user and made.accounts[7].is_signer
    assert made.accounts[10].pubkey == keys["pool"] and made.accounts[10].is_writable


def test_sales_of_a_cashback_coin_list_the_volume_accumulator() -> None:
    """17 accounts, the added one before the trailing two; other trades of such a coin are as usual."""
    curve = BondingCurve(1, 1, 1, 1, 1, creator=addresses.WITHDRAW_AUTHORITY, is_cashback_coin=True)
    trader = Trader(
        addresses.WITHDRAW_AUTHORITY, addresses.NORMAL_FEE_RECIPIENTS[0], addresses.BUYBACK_FEE_RECIPIENTS[0]
    )
    keys = trade_keys(addresses.USDC_MINT, addresses.TOKEN_PROGRAM, curve, trader, addresses.TOKEN_PROGRAM)
    usual, cashback = (
        flags(trade_instruction(Kind.SELL, TradeArguments(5, 1), keys, is_cashback_coin=is_cashback))
        for is_cashback in (False, True)
    )
    assert cashback == [*usual[:14], [str(keys["user_volume"]), "w"], *usual[14:]] and len(cashback) == 17
    bought = (trade_instruction(Kind.BUY, TradeArguments(5, 1), keys, is_cashback_coin=one) for one in (False, True))
    assert len({str(flags(one)) for one in bought}) == 1
