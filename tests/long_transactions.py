"""Transactions of version 1, which may be longer than one packet."""

from collections.abc import Sequence

from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction


def long_v1(sender: Keypair, receivers: Sequence[Pubkey], blockhash: Hash, lamports: int) -> VersionedTransaction:
    """Pay each receiver; 30 receivers make more than 1,232 bytes."""
    owner = sender.pubkey()
    pays = [transfer(TransferParams(from_pubkey=owner, to_pubkey=each, lamports=lamports)) for each in receivers]
    config = TransactionConfig(priority_fee=777, compute_unit_limit=100_000, loaded_accounts_data_size_limit=1_000_000)
    return VersionedTransaction(MessageV1.try_compile(owner, pays, blockhash, config=config), [sender])
