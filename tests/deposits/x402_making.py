"""Payments as the official clients build them, and malformed ones."""

from dataclasses import replace

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from actors.deposits.x402.rules import TOKEN, Rules

MINT = Pubkey.from_string("4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU")
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
DEPOSIT = Keypair.from_seed(bytes(31) + b"\x0d").pubkey()
SPONSOR = Keypair.from_seed(bytes(31) + b"\x05")
PAYER = Keypair.from_seed(bytes(31) + b"\x0a")
PAYER_KEY, SPONSOR_KEY = PAYER.pubkey(), SPONSOR.pubkey()
RULES = Rules(DEPOSIT, MINT, SPONSOR_KEY, 10_000, 50_000, 200_000)
SELF_PAID_ONLY = replace(RULES, sponsor=None)


def token_account(owner: Pubkey, mint: Pubkey = MINT) -> Pubkey:
    return get_associated_token_address(owner, mint)


def transfer_checked(
    amount: int = 100_000,
    payer: Pubkey = PAYER_KEY,
    destination: Pubkey | None = None,
    mint: Pubkey = MINT,
    program: Pubkey = TOKEN,
    source: Pubkey | None = None,
) -> Instruction:
    accounts = [
        AccountMeta(source or token_account(payer, mint), False, True),
        AccountMeta(mint, False, False),
        AccountMeta(destination or token_account(DEPOSIT), False, True),
        AccountMeta(payer, True, False),
    ]
    return Instruction(program, b"\x0c" + amount.to_bytes(8, "little") + b"\x06", accounts)


def old_transfer(amount: int = 100_000, payer: Pubkey = PAYER_KEY) -> Instruction:
    accounts = [
        AccountMeta(token_account(payer), False, True),
        AccountMeta(token_account(DEPOSIT), False, True),
        AccountMeta(payer, True, False),
    ]
    return Instruction(TOKEN, b"\x03" + amount.to_bytes(8, "little"), accounts)


def memo(text: str = "00112233445566778899aabbccddeeff") -> Instruction:
    return Instruction(MEMO, text.encode(), [])


def standard(amount: int = 100_000, *more: Instruction, limit: int = 20_000, price: int = 1) -> list[Instruction]:
    """What npm @x402/svm and PyPI x402 build: limit, price, transfer, memo."""
    return [set_compute_unit_limit(limit), set_compute_unit_price(price), transfer_checked(amount), memo(), *more]


def message_of(
    instructions: list[Instruction], fee_payer: Pubkey = SPONSOR_KEY, blockhash: Hash | None = None
) -> MessageV0:
    return MessageV0.try_compile(fee_payer, instructions, [], blockhash or Hash.default())


def half_signed(message: MessageV0 | Message, payer: Keypair = PAYER) -> bytes:
    """Signed by the payer; the sponsor's signature is empty."""
    signature = payer.sign_message(to_bytes_versioned(message))
    return bytes(VersionedTransaction.populate(message, [Signature.default(), signature]))


def sponsored(*instructions: Instruction, blockhash: Hash | None = None, payer: Keypair = PAYER) -> bytes:
    return half_signed(message_of(list(instructions), blockhash=blockhash), payer)


def self_paid(*instructions: Instruction, blockhash: Hash | None = None, payer: Keypair = PAYER) -> bytes:
    message = message_of(list(instructions), payer.pubkey(), blockhash)
    return bytes(VersionedTransaction(message, [payer]))
