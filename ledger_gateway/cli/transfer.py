"""The transaction of a deposit: USDC from a wallet to the deposit wallet's token account, signed.

Implements: actors/deposits/PAYING.md, "Deposits"; `transferChecked` of the SPL Token program (instruction 12: amount as
u64, decimals as u8). Pure: the blockhash is an argument.
"""

import base64
from decimal import Decimal, InvalidOperation

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

DECIMALS = 6
_UNITS = 10**DECIMALS
_TRANSFER_CHECKED = 12
_AMOUNT_MAX = 2**64 - 1
# USDC of mainnet and devnet. What claims to be USDC and is another token would be lost.
USDC_MINTS = frozenset(("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"))


def usdc_units(text: str) -> int:
    """Return base units of a decimal amount of USDC. Raises ValueError."""
    try:
        units = Decimal(text) * _UNITS
    except InvalidOperation:
        raise ValueError("the amount must be a number such as 5 or 0.25") from None
    if not text.isascii() or not units.is_finite() or units != int(units):
        raise ValueError(f"USDC has {DECIMALS} decimals at most")
    if not 0 < units <= _AMOUNT_MAX:
        raise ValueError("the amount must be above zero, and below what a token can have")
    return int(units)


def usdc_text(units: int) -> str:
    return f"{units // _UNITS}.{units % _UNITS:0{DECIMALS}d}".rstrip("0").rstrip(".")


def token_account(owner: str, mint: str) -> str:
    """Return the address of a wallet's associated token account. Raises ValueError for a bad address."""
    return str(get_associated_token_address(Pubkey.from_string(owner), Pubkey.from_string(mint)))


def signed_transfer(secret: bytes, mint: str, deposit_wallet: str, units: int, blockhash: str) -> tuple[str, str]:
    """Return the base64 of the signed transaction and its signature. Raises ValueError for a bad address."""
    keypair, token, service = Keypair.from_bytes(secret), Pubkey.from_string(mint), Pubkey.from_string(deposit_wallet)
    owner = keypair.pubkey()
    if owner == service:
        raise ValueError("this wallet is the deposit wallet itself")
    accounts = [
        AccountMeta(get_associated_token_address(owner, token), is_signer=False, is_writable=True),
        AccountMeta(token, is_signer=False, is_writable=False),
        AccountMeta(get_associated_token_address(service, token), is_signer=False, is_writable=True),
        AccountMeta(owner, is_signer=True, is_writable=False),
    ]
    data = bytes([_TRANSFER_CHECKED]) + units.to_bytes(8, "little") + bytes([DECIMALS])
    message = MessageV0.try_compile(
        owner, [Instruction(TOKEN_PROGRAM, data, accounts)], [], Hash.from_string(blockhash)
    )
    transaction = VersionedTransaction(message, [keypair])
    return base64.b64encode(bytes(transaction)).decode(), str(transaction.signatures[0])
