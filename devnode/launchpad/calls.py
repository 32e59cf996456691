"""Instructions that the launch program sends to the system, token and associated-token programs.

Implements: their data and accounts, as in samples of the real chain. Pure.
"""

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import ASSOCIATED_TOKEN_PROGRAM, SYSTEM_PROGRAM


def _writable(pubkey: Pubkey, signer: bool = False) -> AccountMeta:
    return AccountMeta(pubkey, signer, True)


def _readonly(pubkey: Pubkey, signer: bool = False) -> AccountMeta:
    return AccountMeta(pubkey, signer, False)


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "little")


def create_account(payer: Pubkey, account: Pubkey, lamports: int, size: int, owner: Pubkey) -> Instruction:
    data = _u32(0) + _u64(lamports) + _u64(size) + bytes(owner)
    return Instruction(SYSTEM_PROGRAM, data, [_writable(payer, True), _writable(account, True)])


def assign(account: Pubkey, owner: Pubkey) -> Instruction:
    return Instruction(SYSTEM_PROGRAM, _u32(1) + bytes(owner), [_writable(account, True)])


def transfer_lamports(source: Pubkey, target: Pubkey, lamports: int) -> Instruction:
    return Instruction(SYSTEM_PROGRAM, _u32(2) + _u64(lamports), [_writable(source, True), _writable(target)])


def allocate(account: Pubkey, size: int) -> Instruction:
    return Instruction(SYSTEM_PROGRAM, _u32(8) + _u64(size), [_writable(account, True)])


def create_token_account(
    payer: Pubkey, account: Pubkey, owner: Pubkey, mint: Pubkey, token_program: Pubkey, idempotent: bool = False
) -> Instruction:
    accounts = [
        *(_writable(payer, True), _writable(account), _readonly(owner), _readonly(mint)),
        *(_readonly(SYSTEM_PROGRAM), _readonly(token_program)),
    ]
    return Instruction(ASSOCIATED_TOKEN_PROGRAM, bytes((idempotent,)), accounts)


def initialize_mint(program: Pubkey, mint: Pubkey, decimals: int, authority: Pubkey) -> Instruction:
    data = bytes((20, decimals)) + bytes(authority) + b"\x00"  # InitializeMint2, without a freeze authority.
    return Instruction(program, data, [_writable(mint)])


def initialize_account(program: Pubkey, account: Pubkey, mint: Pubkey, owner: Pubkey) -> Instruction:
    return Instruction(program, bytes((18,)) + bytes(owner), [_writable(account), _readonly(mint)])


def initialize_metadata_pointer(program: Pubkey, mint: Pubkey) -> Instruction:
    """The mint has its own metadata, and no authority can change the pointer."""
    return Instruction(program, bytes((39, 0)) + bytes(32) + bytes(mint), [_writable(mint)])


def initialize_token_metadata(
    program: Pubkey, mint: Pubkey, authority: Pubkey, name: str, symbol: str, uri: str
) -> Instruction:
    texts = b"".join(_u32(len(text.encode())) + text.encode() for text in (name, symbol, uri))
    accounts = [_writable(mint), _readonly(authority), _readonly(mint), _readonly(authority, True)]
    return Instruction(program, bytes.fromhex("d2e11ea258b84d8d") + texts, accounts)


def give_up_token_metadata(program: Pubkey, mint: Pubkey, authority: Pubkey) -> Instruction:
    data = bytes.fromhex("d7e4a6e45464567b") + bytes(32)
    return Instruction(program, data, [_writable(mint), _readonly(authority, True)])


def mint_to(program: Pubkey, mint: Pubkey, account: Pubkey, authority: Pubkey, amount: int) -> Instruction:
    accounts = [_writable(mint), _writable(account), _readonly(authority, True)]
    return Instruction(program, bytes((7,)) + _u64(amount), accounts)


def give_up_minting(program: Pubkey, mint: Pubkey, authority: Pubkey) -> Instruction:
    return Instruction(program, bytes((6, 0, 0)), [_writable(mint), _readonly(authority, True)])


def burn(program: Pubkey, account: Pubkey, mint: Pubkey, owner: Pubkey, amount: int) -> Instruction:
    accounts = [_writable(account), _writable(mint), _readonly(owner, True)]
    return Instruction(program, bytes((8,)) + _u64(amount), accounts)


def transfer_tokens(
    program: Pubkey, source: Pubkey, mint: Pubkey, target: Pubkey, authority: Pubkey, amount: int, decimals: int
) -> Instruction:
    accounts = [_writable(source), _readonly(mint), _writable(target), _readonly(authority, True)]
    return Instruction(program, bytes((12,)) + _u64(amount) + bytes((decimals,)), accounts)


def sync_native(program: Pubkey, account: Pubkey) -> Instruction:
    return Instruction(program, bytes((17,)), [_writable(account)])
