import base64
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.errors import Refusal
from actors.launch_programs import addresses, pdas
from actors.launch_programs.configs import encode_fee_config, encode_global
from actors.launch_programs.curve_account import encode_curve
from actors.trades.snapshot import (
    COIN_ACCOUNTS,
    WALLET_ACCOUNTS,
    CoinState,
    RawAccount,
    UnreadableAccountsError,
    WalletState,
    coin_addresses,
    read_accounts,
    read_coin,
    read_wallet,
    wallet_addresses,
)
from tests.launch_programs.test_configs import GLOBAL

from .test_quotes import FRESH, MINT, SCHEDULE, USER, coin

SUPPLY = 2 * 10**15


def raw(owner: Pubkey, data: bytes) -> RawAccount:
    return RawAccount(str(owner), (base64.b64encode(data).decode(), "base64"))


def mint_data(supply: int = SUPPLY, decimals: int = 6) -> bytes:
    return bytes(36) + supply.to_bytes(8, "little") + bytes((decimals, 1)) + bytes(36)


def token_data(amount: int, mint: Pubkey = MINT, owner: Pubkey = USER, state: int = 1) -> bytes:
    return (bytes(mint) + bytes(owner) + amount.to_bytes(8, "little") + bytes(36) + bytes((state,))).ljust(165, b"\x00")


def coin_accounts(program: Pubkey = addresses.TOKEN_2022_PROGRAM) -> list[RawAccount | None]:
    return [
        raw(addresses.PUMP, encode_curve(FRESH)),
        raw(program, mint_data()),
        raw(addresses.PUMP, encode_global(GLOBAL)),
        raw(addresses.PUMP_FEES, encode_fee_config(SCHEDULE)),
        None,
    ]


def test_a_coin_is_read_from_its_five_accounts() -> None:
    """Curve, mint with program and live supply, configuration, schedule, and whether the pool is there."""
    found = read_coin(MINT, coin_accounts())
    assert found == CoinState(MINT, addresses.TOKEN_2022_PROGRAM, SUPPLY, FRESH, GLOBAL, SCHEDULE)
    moved = [*coin_accounts()[:3], None, raw(addresses.PUMP_AMM, b"pool")]
    assert read_coin(MINT, moved) == replace(found, schedule=None, pool_exists=True)
    assert read_coin(MINT, [*moved[:4], raw(addresses.SYSTEM_PROGRAM, b"")]) == replace(found, schedule=None)


def test_the_accounts_that_are_asked_for_are_those_of_the_chain() -> None:
    asked = coin_addresses(MINT)
    assert len(asked) == COIN_ACCOUNTS and asked[0] == pdas.bonding_curve(MINT) and asked[1] == MINT
    assert asked[4] == pdas.canonical_pool(MINT, addresses.WSOL_MINT)
    both = [
        pdas.associated_token(USER, program, MINT)
        for program in (addresses.TOKEN_PROGRAM, addresses.TOKEN_2022_PROGRAM)
    ]
    wrapped = pdas.associated_token(USER, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)
    assert wallet_addresses(MINT, USER) == [*both, wrapped] and len(both) + 1 == WALLET_ACCOUNTS


@pytest.mark.parametrize(
    ("place", "account"), [(0, None), (1, None), (0, RawAccount("11111111111111111111111111111111", ("", "base64")))]
)
def test_a_mint_without_a_curve_is_the_clients_mistake(place: int, account: RawAccount | None) -> None:
    """Also where somebody has sent lamports to the address that its curve would have."""
    accounts = coin_accounts()
    accounts[place] = account
    found = read_coin(MINT, accounts)
    assert isinstance(found, Refusal) and "no curve" in found.detail


@pytest.mark.parametrize(
    ("place", "account"),
    [
        (0, raw(addresses.TOKEN_PROGRAM, encode_curve(FRESH))),
        (0, raw(addresses.PUMP, b"other")),
        (0, RawAccount(str(addresses.PUMP), ("***", "base64"))),
        (0, RawAccount(str(addresses.PUMP), ("", "base58"))),
        (1, raw(addresses.PUMP, mint_data())),
        (1, raw(addresses.TOKEN_PROGRAM, mint_data()[:81])),
        (1, raw(addresses.TOKEN_PROGRAM, bytes(82))),
        (1, RawAccount("no key", ("", "base64"))),
        (2, None),
        (2, raw(addresses.PUMP_AMM, encode_global(GLOBAL))),
        (2, raw(addresses.PUMP, encode_curve(FRESH))),
        (3, raw(addresses.PUMP, encode_fee_config(SCHEDULE))),
        (3, raw(addresses.PUMP_FEES, b"\x00" * 4_097)),
    ],
)
def test_what_the_chain_cannot_hold_is_no_answer(place: int, account: RawAccount | None) -> None:
    """A node that answers wrongly is not believed, and nobody pays for its answer."""
    accounts = coin_accounts()
    accounts[place] = account
    with pytest.raises(UnreadableAccountsError):
        read_coin(MINT, accounts)


def test_a_mint_of_255_decimals_is_read_like_any_other() -> None:
    """Amounts are base units, so decimals play no part."""
    accounts = coin_accounts()
    accounts[1] = raw(addresses.TOKEN_PROGRAM, mint_data(2**64 - 1, 255))
    found = read_coin(MINT, accounts)
    assert isinstance(found, CoinState) and found.supply == 2**64 - 1


def test_a_wallets_tokens_are_those_of_its_account_under_the_coins_program() -> None:
    state = coin(FRESH)
    right, other = raw(addresses.TOKEN_PROGRAM, token_data(7)), raw(addresses.TOKEN_2022_PROGRAM, token_data(9))
    assert read_wallet(state, USER, [right, other, None]) == WalletState(USER, 7)
    newer = replace(state, token_program=addresses.TOKEN_2022_PROGRAM)
    assert read_wallet(newer, USER, [None, other, right]) == WalletState(USER, 9, has_wrapped_sol=True)
    frozen = raw(addresses.TOKEN_PROGRAM, token_data(7, state=2))
    assert read_wallet(state, USER, [frozen, None, None]) == WalletState(USER, 7, is_frozen=True)


def test_an_account_that_is_not_the_wallets_holds_nothing_of_it() -> None:
    """Lamports sent to the address before the account was made; an account that its owner gave away."""
    state = coin(FRESH)
    early = raw(addresses.SYSTEM_PROGRAM, b"")
    given = raw(addresses.TOKEN_PROGRAM, token_data(7, owner=MINT))
    for account in (None, early, given):
        assert read_wallet(state, USER, [account, None, early]) == WalletState(USER, 0)
    for data in (token_data(7, mint=USER), token_data(7)[:164]):
        with pytest.raises(UnreadableAccountsError):
            read_wallet(state, USER, [raw(addresses.TOKEN_PROGRAM, data), None, None])


@given(st.lists(st.one_of(st.none(), st.binary(max_size=400)), min_size=8, max_size=8), st.booleans())
@pytest.mark.threat(33)
def test_any_bytes_are_a_state_a_refusal_or_unreadable(parts: list[bytes | None], headed: bool) -> None:
    """Threat 33: never another exception."""
    good = coin_accounts()
    accounts = [
        None
        if data is None
        else RawAccount(known.owner if known else str(addresses.TOKEN_PROGRAM), text(known, data, headed))
        for data, known in zip(parts, [*good, good[1], None, None], strict=True)
    ]
    try:
        found = read_coin(MINT, accounts[:5])
        if isinstance(found, CoinState):
            read_wallet(found, USER, accounts[5:])
    except UnreadableAccountsError:
        pass


def text(known: RawAccount | None, data: bytes, headed: bool) -> tuple[str, str]:
    head = base64.b64decode(known.data[0])[:8] if known is not None and headed else b""
    return base64.b64encode(head + data).decode(), "base64"


@pytest.mark.parametrize("result", [b"null", b'{"value":null}', b'{"value":[5]}', b'{"value":[{"owner":1}]}', b"[]"])
def test_other_results_are_no_accounts(result: bytes) -> None:
    with pytest.raises(UnreadableAccountsError):
        read_accounts(result, 1)


def test_every_account_must_be_answered() -> None:
    """One account too few would shift all behind it."""
    account = {"owner": str(addresses.PUMP), "data": ["", "base64"], "lamports": 1, "executable": False, "space": 0}
    result = orjson.dumps({"context": {"slot": 5}, "value": [account, None]})
    assert read_accounts(result, 2) == [RawAccount(str(addresses.PUMP), ("", "base64")), None]
    with pytest.raises(UnreadableAccountsError):
        read_accounts(result, 3)
