"""Tokens with metadata on the chain of a scene: in the mint itself, and in accounts of the metadata program."""

import struct

from solders.account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, TransferParams, create_account, transfer

from actors.addresses import TOKEN_METADATA_PROGRAM
from devnode.launchpad import calls

from .scene import TOKEN_2022_PROGRAM_ID, Scene

_MINT_BYTES = 234  # With the metadata pointer; the metadata follows.
_PROGRAM = Pubkey.from_string(TOKEN_METADATA_PROGRAM)


def with_own_metadata(scene: Scene, name: str, symbol: str, uri: str, decimals: int = 6) -> Pubkey:
    """Create a Token-2022 mint that carries its metadata. Its authority is Anna."""
    key, anna = Keypair(), scene.anna.pubkey()
    rent = scene.local.call("getMinimumBalanceForRentExemption", _MINT_BYTES)
    params = CreateAccountParams(
        from_pubkey=anna, to_pubkey=key.pubkey(), lamports=rent, space=_MINT_BYTES, owner=TOKEN_2022_PROGRAM_ID
    )
    record = scene.land(
        scene.anna,
        create_account(params),
        calls.initialize_metadata_pointer(TOKEN_2022_PROGRAM_ID, key.pubkey()),
        calls.initialize_mint(TOKEN_2022_PROGRAM_ID, key.pubkey(), decimals, anna),
        transfer(TransferParams(from_pubkey=anna, to_pubkey=key.pubkey(), lamports=10**7)),
        calls.initialize_token_metadata(TOKEN_2022_PROGRAM_ID, key.pubkey(), anna, name, symbol, uri),
        signers=(key,),
    )
    assert record.meta.err is None, record.meta.logs
    return key.pubkey()


def metadata_account(
    mint: Pubkey,
    name: str,
    symbol: str,
    uri: str,
    authority: Pubkey,
    creators: int = 0,
    standard: int | None = None,
    collection: Pubkey | None = None,
) -> bytes:
    """The bytes of a metadata account: texts padded as the program pads them, 250 basis points, mutable."""
    data = b"\4" + bytes(authority) + bytes(mint)
    for text, size in ((name, 32), (symbol, 10), (uri, 200)):
        data += struct.pack("<I", size) + text.encode().ljust(size, b"\0")
    data += struct.pack("<H", 250)
    if creators:
        one = bytes(authority) + struct.pack("<BB", 1, 100 // creators)
        data += b"\1" + struct.pack("<I", creators) + one * creators
    else:
        data += b"\0"
    data += b"\0\1" + b"\1\xff"  # Not sold, mutable; the nonce of the edition.
    data += b"\0" if standard is None else bytes((1, standard))
    data += b"\0" if collection is None else b"\1\1" + bytes(collection)
    return data.ljust(607, b"\0")


def place_metadata(scene: Scene, mint: Pubkey, data: bytes, owner: Pubkey = _PROGRAM) -> None:
    """Put an account of the metadata program on the chain, as its address is derived."""
    address = Pubkey.find_program_address([b"metadata", bytes(_PROGRAM), bytes(mint)], _PROGRAM)[0]
    scene.local.chain.place(address, Account(10**7, data, owner))
    scene.local.finalize()
