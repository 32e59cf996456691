"""The accounts that a build reads: their addresses, and their meaning.

Implements: the account layouts of the platform's programs (actors/launch_programs); threat 33 (any bytes, never an
exception).
Pure. Not here: asking a node (mint_reads.py), pricing a coin's state (quotes.py).

One call to the node reads them all: first those of the coin, then three for each wallet. The token program of a coin is
known only from its mint, so a wallet's token account is read under both programs.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from solders.pubkey import Pubkey

from actors.errors import Err, Refusal
from actors.launch_programs import addresses, pdas
from actors.launch_programs.configs import FeeConfig, Global, decode_fee_config, decode_global
from actors.launch_programs.curve_account import BondingCurve, decode_curve

COIN_ACCOUNTS = 5
WALLET_ACCOUNTS = 3
_TOKEN_ACCOUNT_BYTES = 165
_MINT_BYTES = 82
_SUPPLY_AT, _INITIALIZED_AT = 36, 45
_AMOUNT_AT, _STATE_AT, _FROZEN = 64, 108, 2
_CONFIGS_KEPT = 4


class UnreadableAccountsError(Exception):
    """The node's answer cannot come from the chain: the call must be free."""


class RawAccount(msgspec.Struct, frozen=True):
    owner: str
    data: tuple[str, str]  # The bytes, and the name of their encoding.


class _Accounts(msgspec.Struct):
    value: list[RawAccount | None]


_DECODER = msgspec.json.Decoder(_Accounts)


@dataclass(frozen=True, slots=True)
class CoinState:
    """A coin whose curve can be traded or is complete. pool_exists: its pool on the exchange has been made."""

    mint: Pubkey
    token_program: Pubkey
    supply: int
    curve: BondingCurve
    config: Global
    schedule: FeeConfig | None
    pool_exists: bool = False


@dataclass(frozen=True, slots=True)
class WalletState:
    """tokens: base units in the wallet's associated account of the coin; 0 where there is none."""

    user: Pubkey
    tokens: int = 0
    is_frozen: bool = False
    has_wrapped_sol: bool = False


def coin_addresses(mint: Pubkey) -> list[Pubkey]:
    """The curve, the mint, the platform's two configurations, and the pool that a complete SOL coin moves to."""
    pool = pdas.canonical_pool(mint, addresses.WSOL_MINT)
    return [pdas.bonding_curve(mint), mint, addresses.GLOBAL, addresses.CURVE_FEE_CONFIG, pool]


def wallet_addresses(mint: Pubkey, user: Pubkey) -> list[Pubkey]:
    classic = pdas.associated_token(user, addresses.TOKEN_PROGRAM, mint)
    newer = pdas.associated_token(user, addresses.TOKEN_2022_PROGRAM, mint)
    return [classic, newer, pdas.associated_token(user, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)]


def read_accounts(result: bytes, count: int) -> list[RawAccount | None]:
    """The accounts of a getMultipleAccounts result. Raises UnreadableAccountsError."""
    try:
        found = _DECODER.decode(result).value
    except msgspec.DecodeError as error:
        raise UnreadableAccountsError("not a list of accounts") from error
    if len(found) != count:
        raise UnreadableAccountsError(f"{len(found)} accounts instead of {count}")
    return found


def read_coin(mint: Pubkey, found: Sequence[RawAccount | None]) -> CoinState | Refusal:
    """Read the accounts of `coin_addresses`. Refuses mints that the platform did not launch."""
    curve_account, mint_account, config_account, schedule_account, pool = found
    config = None if config_account is None else _global_of(_owned(config_account, addresses.PUMP))
    if config is None:
        raise UnreadableAccountsError("the platform's configuration is missing or has another layout")
    # Anybody can send lamports to the address of a curve that does not exist.
    if curve_account is None or mint_account is None or curve_account.owner == str(addresses.SYSTEM_PROGRAM):
        return Refusal(Err.INVALID_PARAMS, "mint: the launch platform has no curve for it")
    curve = decode_curve(_owned(curve_account, addresses.PUMP))
    if curve is None:
        raise UnreadableAccountsError("the curve has another layout")
    program = _key(mint_account.owner)
    data = account_bytes(mint_account)
    if program not in addresses.TOKEN_PROGRAMS or len(data) < _MINT_BYTES or data[_INITIALIZED_AT] != 1:
        raise UnreadableAccountsError("the mint of a curve is not a mint")
    schedule = None
    if schedule_account is not None:
        schedule = _schedule_of(_owned(schedule_account, addresses.PUMP_FEES))
        if schedule is None:
            raise UnreadableAccountsError("the fee schedule has another layout")
    has_pool = pool is not None and pool.owner == str(addresses.PUMP_AMM)
    supply = int.from_bytes(data[_SUPPLY_AT : _SUPPLY_AT + 8], "little")
    return CoinState(mint, program, supply, curve, config, schedule, has_pool)


def read_wallet(coin: CoinState, user: Pubkey, found: Sequence[RawAccount | None]) -> WalletState:
    """Read the accounts of `wallet_addresses`."""
    classic, newer, wrapped = found
    has_wrapped_sol = wrapped is not None and wrapped.owner == str(addresses.TOKEN_PROGRAM)
    account = classic if coin.token_program == addresses.TOKEN_PROGRAM else newer
    # Lamports that somebody sent to the address before the account was made leave it with the system program.
    if account is None or _key(account.owner) != coin.token_program:
        return WalletState(user, has_wrapped_sol=has_wrapped_sol)
    data = account_bytes(account)
    if len(data) < _TOKEN_ACCOUNT_BYTES or data[:32] != bytes(coin.mint):
        raise UnreadableAccountsError("a wallet's token account has another layout or mint")
    if data[32:64] != bytes(user):  # SPL Token lets a wallet give its associated account away.
        return WalletState(user, has_wrapped_sol=has_wrapped_sol)
    tokens = int.from_bytes(data[_AMOUNT_AT : _AMOUNT_AT + 8], "little")
    return WalletState(user, tokens, data[_STATE_AT] == _FROZEN, has_wrapped_sol)


@lru_cache(_CONFIGS_KEPT)
def _global_of(data: bytes) -> Global | None:
    return decode_global(data)


@lru_cache(_CONFIGS_KEPT)
def _schedule_of(data: bytes) -> FeeConfig | None:
    return decode_fee_config(data)


def _owned(account: RawAccount, program: Pubkey) -> bytes:
    if account.owner != str(program):
        raise UnreadableAccountsError("an account of the platform belongs to another program")
    return account_bytes(account)


def _key(text: str) -> Pubkey:
    try:
        return Pubkey.from_string(text)
    except ValueError as error:
        raise UnreadableAccountsError("the owner of an account is not a public key") from error


def account_bytes(account: RawAccount) -> bytes:
    text, encoding = account.data
    if encoding != "base64":
        raise UnreadableAccountsError("an account is not in base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UnreadableAccountsError("an account is not valid base64") from error
