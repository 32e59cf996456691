"""solana-py, unmodified, through the gateway: a full transfer."""

import asyncio

import pytest
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solana.rpc.core import RPCException
from solana.rpc.models import TxOpts
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.rpc.errors import SendTransactionPreflightFailureMessage
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from solders.transaction_status import TransactionConfirmationStatus

from bench.product import Product
from tests.long_transactions import long_v1

LAMPORTS = 2_000_000
_LANDED = (TransactionConfirmationStatus.Confirmed, TransactionConfirmationStatus.Finalized)


async def landed(client: AsyncClient, signature: Signature) -> None:
    for _ in range(600):
        status = (await client.get_signature_statuses([signature])).value[0]
        if status is not None:
            assert status.err is None, status
            if status.confirmation_status in _LANDED:
                return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{signature} did not land")


async def transfer_through(client: AsyncClient, sender: Keypair) -> int:
    """Blockhash, sign, send, status; gives the balance of a fresh receiver."""
    receiver = Keypair().pubkey()
    blockhash = (await client.get_latest_blockhash()).value.blockhash
    instruction = transfer(TransferParams(from_pubkey=sender.pubkey(), to_pubkey=receiver, lamports=LAMPORTS))
    message = MessageV0.try_compile(sender.pubkey(), [instruction], [], blockhash)
    signature = (await client.send_raw_transaction(bytes(VersionedTransaction(message, [sender])))).value
    await landed(client, signature)
    found = await client.get_transaction(signature, max_supported_transaction_version=0, commitment=Confirmed)
    assert found.value is not None
    return int((await client.get_balance(receiver, commitment=Confirmed)).value)


async def test_transfer_with_the_key_in_a_header(product: Product) -> None:
    """The client's own `extra_headers` is all that it takes; every call is charged as priced."""
    sender = Keypair.from_base58_string(product.ready["secret_key"])
    before = product.account()["total_consumed_credits"]
    async with AsyncClient(product.http_url, extra_headers={"X-Api-Key": product.api_key}) as client:
        assert await client.is_connected()
        assert await transfer_through(client, sender) == LAMPORTS
    # At least: blockhash 1, send 2, one status 1, transaction 5, balance 1.
    assert product.account()["total_consumed_credits"] - before >= 10


async def test_transfer_with_the_key_in_the_url(product: Product) -> None:
    """For clients that know nothing but a URL."""
    sender = Keypair.from_base58_string(product.ready["secret_key"])
    async with AsyncClient(f"{product.http_url}/?api-key={product.api_key}") as client:
        assert await transfer_through(client, sender) == LAMPORTS


async def test_a_failed_preflight_is_decoded_as_the_nodes(product: Product) -> None:
    """The library's own exception, with the program's error and the logs in it."""
    sender = Keypair.from_base58_string(product.ready["secret_key"])
    failures = []
    async with (
        AsyncClient(product.http_url, extra_headers={"X-Api-Key": product.api_key}) as gateway,
        AsyncClient(str(product.ready["node_url"])) as node,
    ):
        blockhash = (await gateway.get_latest_blockhash(Confirmed)).value.blockhash
        given = TransferParams(from_pubkey=sender.pubkey(), to_pubkey=Keypair().pubkey(), lamports=10**16)
        message = MessageV0.try_compile(sender.pubkey(), [transfer(given)], [], blockhash)
        for client in (gateway, node):
            with pytest.raises(RPCException) as caught:
                await client.send_transaction(
                    VersionedTransaction(message, [sender]), TxOpts(preflight_commitment=Confirmed)
                )
            failures.append(caught.value.args[0])
    through, direct = failures
    assert isinstance(through, SendTransactionPreflightFailureMessage) and through == direct
    assert through.data.err is not None and any("insufficient lamports" in line for line in through.data.logs or [])


async def test_a_v1_transaction_of_more_than_1232_bytes_lands(product: Product) -> None:
    """With preflight, as every send of this library that says nothing else."""
    sender = Keypair.from_base58_string(product.ready["secret_key"])
    async with AsyncClient(product.http_url, extra_headers={"X-Api-Key": product.api_key}) as client:
        receivers = [Pubkey.new_unique() for _ in range(30)]
        blockhash = (await client.get_latest_blockhash(Confirmed)).value.blockhash
        raw = bytes(long_v1(sender, receivers, blockhash, LAMPORTS))
        assert len(raw) > 1_232
        signature = (await client.send_raw_transaction(raw, TxOpts(preflight_commitment=Confirmed))).value
        await landed(client, signature)
        assert (await client.get_balance(receivers[-1], commitment=Confirmed)).value == LAMPORTS
