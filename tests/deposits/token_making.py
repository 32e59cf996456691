"""Token instructions as wallets and programs make them, and a chain in the test that executes them."""

from pathlib import Path
from typing import Any

from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from actors.deposits.usdc.transfers import DepositAccount, Executed, deposit_account, read
from tests.devnode.local_node import LocalNode

TOKEN = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022 = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
ASSOCIATED = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
SYSTEM = Pubkey.from_string("11111111111111111111111111111111")
MINT = Pubkey.from_string("4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU")
TOKEN_ACCOUNT_BYTES, MINT_BYTES, MULTISIG_BYTES = 165, 82, 355
FEE_MINT_BYTES = 165 + 1 + 4 + 108  # Padded like an account, its type, then the extension with its head.
RENT = 10_000_000


def token_account(owner: Pubkey, mint: Pubkey = MINT) -> Pubkey:
    return get_associated_token_address(owner, mint)


def _signers(*keys: Pubkey) -> list[AccountMeta]:
    return [AccountMeta(key, True, False) for key in keys]


def pay(
    amount: int,
    source: Pubkey,
    destination: Pubkey,
    authority: Pubkey,
    *signers: Pubkey,
    references: tuple[Pubkey, ...] = (),
) -> Instruction:
    """Transfer. signers: of a multisig authority; references: keys that point-of-sale clients append."""
    accounts = [
        AccountMeta(source, False, True),
        AccountMeta(destination, False, True),
        AccountMeta(authority, not signers, False),
        *_signers(*signers),
        *(AccountMeta(key, False, False) for key in references),
    ]
    return Instruction(TOKEN, b"\x03" + amount.to_bytes(8, "little"), accounts)


def token_2022_account(owner: Pubkey, mint: Pubkey) -> Pubkey:
    return get_associated_token_address(owner, mint, TOKEN_2022)


def pay_checked(
    amount: int, source: Pubkey, destination: Pubkey, authority: Pubkey, mint: Pubkey = MINT, program: Pubkey = TOKEN
) -> Instruction:
    accounts = [
        AccountMeta(source, False, True),
        AccountMeta(mint, False, False),
        AccountMeta(destination, False, True),
        AccountMeta(authority, True, False),
    ]
    return Instruction(program, b"\x0c" + amount.to_bytes(8, "little") + b"\x06", accounts)


def batch(*instructions: Instruction) -> Instruction:
    data, accounts = b"\xff", []
    for each in instructions:
        data += bytes((len(each.accounts), len(each.data))) + bytes(each.data)
        accounts += each.accounts
    return Instruction(TOKEN, data, accounts)


def approve(amount: int, source: Pubkey, delegate: Pubkey, owner: Pubkey) -> Instruction:
    accounts = [AccountMeta(source, False, True), AccountMeta(delegate, False, False), *_signers(owner)]
    return Instruction(TOKEN, b"\x04" + amount.to_bytes(8, "little"), accounts)


def open_associated(payer: Pubkey, owner: Pubkey, mint: Pubkey = MINT, program: Pubkey = TOKEN) -> Instruction:
    accounts = [
        AccountMeta(payer, True, True),
        AccountMeta(get_associated_token_address(owner, mint, program), False, True),
        AccountMeta(owner, False, False),
        AccountMeta(mint, False, False),
        AccountMeta(SYSTEM, False, False),
        AccountMeta(program, False, False),
    ]
    return Instruction(ASSOCIATED, b"\x01", accounts)


def open_plain(payer: Pubkey, account: Pubkey, owner: Pubkey, mint: Pubkey = MINT) -> list[Instruction]:
    """A token account that is not the associated one: InitializeAccount3."""
    return [
        create_account(
            CreateAccountParams(
                from_pubkey=payer, to_pubkey=account, lamports=RENT, space=TOKEN_ACCOUNT_BYTES, owner=TOKEN
            )
        ),
        Instruction(
            TOKEN, b"\x12" + bytes(owner), [AccountMeta(account, False, True), AccountMeta(mint, False, False)]
        ),
    ]


def open_multisig(payer: Pubkey, account: Pubkey, needed: int, *signers: Pubkey) -> list[Instruction]:
    """InitializeMultisig2."""
    accounts = [AccountMeta(account, False, True), *(AccountMeta(key, False, False) for key in signers)]
    return [
        create_account(
            CreateAccountParams(from_pubkey=payer, to_pubkey=account, lamports=RENT, space=MULTISIG_BYTES, owner=TOKEN)
        ),
        Instruction(TOKEN, bytes((19, needed)), accounts),
    ]


def open_mint(payer: Pubkey, mint: Pubkey, authority: Pubkey) -> list[Instruction]:
    """InitializeMint2, six decimals."""
    return [
        create_account(
            CreateAccountParams(from_pubkey=payer, to_pubkey=mint, lamports=RENT, space=MINT_BYTES, owner=TOKEN)
        ),
        Instruction(TOKEN, b"\x14\x06" + bytes(authority) + b"\x00", [AccountMeta(mint, False, True)]),
    ]


def open_fee_mint(payer: Pubkey, mint: Pubkey, authority: Pubkey) -> list[Instruction]:
    """Token-2022, one percent of every transfer withheld: InitializeTransferFeeConfig, then InitializeMint2."""
    fee = b"\x1a\x00" + 2 * (b"\x01" + bytes(authority)) + (100).to_bytes(2, "little") + (10**9).to_bytes(8, "little")
    return [
        create_account(
            CreateAccountParams(
                from_pubkey=payer, to_pubkey=mint, lamports=RENT, space=FEE_MINT_BYTES, owner=TOKEN_2022
            )
        ),
        Instruction(TOKEN_2022, fee, [AccountMeta(mint, False, True)]),
        Instruction(TOKEN_2022, b"\x14\x06" + bytes(authority) + b"\x00", [AccountMeta(mint, False, True)]),
    ]


def mint_to(amount: int, mint: Pubkey, account: Pubkey, authority: Pubkey, program: Pubkey = TOKEN) -> Instruction:
    accounts = [AccountMeta(mint, False, True), AccountMeta(account, False, True), *_signers(authority)]
    return Instruction(program, b"\x07" + amount.to_bytes(8, "little"), accounts)


class Shop:
    """A chain, a deposit wallet with its account, and a customer with SOL and USDC."""

    def __init__(self, folder: Path) -> None:
        self.node = LocalNode(folder)
        self.keeper = Keypair()
        self.customer = self.node.wallet(10**10, 10**9)
        self.account: DepositAccount = deposit_account(str(self.keeper.pubkey()), str(MINT))
        self.till = token_account(self.keeper.pubkey())
        self.wallet = self.customer.pubkey()
        self.purse = token_account(self.wallet)
        self.run([open_associated(self.wallet, self.keeper.pubkey())])

    def signed(self, instructions: list[Instruction], *others: Keypair) -> VersionedTransaction:
        message = MessageV0.try_compile(self.wallet, instructions, [], self.node.blockhash())
        return VersionedTransaction(message, [self.customer, *others])

    def run(self, instructions: list[Instruction], *others: Keypair) -> str:
        """Send it and wait until it is final. Returns its signature, whether it succeeded or not."""
        transaction = self.signed(instructions, *others)
        self.node.land(transaction)
        self.node.finalize()
        return str(transaction.signatures[0])

    def fetch(self, signature: str) -> dict[str, Any]:
        config = {"encoding": "json", "maxSupportedTransactionVersion": 1, "commitment": "finalized"}
        found: dict[str, Any] = self.node.call("getTransaction", signature, config)
        return found

    def read(self, signature: str) -> Executed:
        return read(self.fetch(signature), self.account)

    def pay(self, amount: int = 10_000) -> Instruction:
        return pay(amount, self.purse, self.till, self.wallet)
