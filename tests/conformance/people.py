"""Somebody on the chain to ask about: a wallet with SOL and USDC, and transactions of it that are final."""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0, MessageV1, TransactionConfig, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from .both import Both

USDC_MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"  # Of devnet, which devnode presents itself as.
_FINAL_SECONDS_MAX = 60
_PRICE_MICRO_LAMPORTS = 5_000


@dataclass(frozen=True, slots=True)
class Somebody:
    wallet: str
    token_account: str
    signature: str  # Of a v0 transaction.
    signature_v1: str
    slot: int  # Of the v0 transaction's block.
    slot_v1: int


def settle(both: Both, node_url: str) -> tuple[Keypair, Somebody]:
    """A fresh wallet, funded and used; returns when all of it is final."""
    key = Keypair()
    fund = {"pubkey": str(key.pubkey()), "lamports": 10**10, "usdc_base_units": 5_250_000}
    httpx.post(f"{node_url}/admin/fund", json=fund, timeout=30).raise_for_status()
    prices = [set_compute_unit_limit(20_000), set_compute_unit_price(_PRICE_MICRO_LAMPORTS)]
    _wait(both, str(key.pubkey()))
    signature = send(both, signed(key, blockhash(both), *prices, given(key, 2_000_000)))
    _leave_block_of(both, signature)
    config = TransactionConfig(priority_fee=777, compute_unit_limit=20_000, loaded_accounts_data_size_limit=1 << 20)
    message = MessageV1.try_compile(key.pubkey(), [given(key, 3_000_000)], blockhash(both), config=config)
    signature_v1 = send(both, VersionedTransaction(message, [key]))
    slots = [_final_slot(both, one) for one in (signature, signature_v1)]
    account = get_associated_token_address(key.pubkey(), Pubkey.from_string(USDC_MINT))
    return key, Somebody(str(key.pubkey()), str(account), signature, signature_v1, *slots)


def given(key: Keypair, lamports: int) -> object:
    return transfer(TransferParams(from_pubkey=key.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=lamports))


def signed(key: Keypair, recent: Hash, *instructions: object) -> VersionedTransaction:
    return VersionedTransaction(MessageV0.try_compile(key.pubkey(), list(instructions), [], recent), [key])


def text(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()


def message_text(transaction: VersionedTransaction) -> str:
    return base64.b64encode(to_bytes_versioned(transaction.message)).decode()


def blockhash(both: Both) -> Hash:
    """Final, so that it is known at every commitment."""
    return Hash.from_string(both.node_result("getLatestBlockhash")["value"]["blockhash"])


def send(both: Both, transaction: VersionedTransaction) -> str:
    config = {"encoding": "base64", "preflightCommitment": "processed"}
    signature: str = both.node_result("sendTransaction", text(transaction), config)
    return signature


def _wait(both: Both, wallet: str) -> None:
    _until(lambda: both.node_result("getBalance", wallet, {"commitment": "confirmed"})["value"] > 0)


def _leave_block_of(both: Both, signature: str) -> None:
    """What is sent next lands in another block: one with a v1 transaction in it answers differently."""

    def is_past() -> bool:
        (status,) = both.node_result("getSignatureStatuses", [signature])["value"]
        newest: int = both.node_result("getSlot", {"commitment": "processed"})
        return status is not None and newest > status["slot"] + 1

    _until(is_past)


def _final_slot(both: Both, signature: str) -> int:
    def is_final() -> bool:
        (status,) = both.node_result("getSignatureStatuses", [signature])["value"]
        return status is not None and status["confirmationStatus"] == "finalized"

    _until(is_final)
    (status,) = both.node_result("getSignatureStatuses", [signature])["value"]
    assert status["err"] is None, status
    slot: int = status["slot"]
    return slot


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _FINAL_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "the chain did not come so far"
        time.sleep(0.1)
