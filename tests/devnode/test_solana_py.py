"""An unmodified client library against a devnode that runs as a process of its own."""

import pytest
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Finalized, Processed
from solana.rpc.core import RPCException
from solana.rpc.models import TxOpts
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.rpc.errors import SendTransactionPreflightFailureMessage
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    transfer_checked,
)
from spl.token.models import TransferCheckedParams

from devnode.encoding.addresses import GENESIS_HASH, USDC_MINT

from .conftest import Process, StartDevnode


async def fund(client: AsyncClient, process: Process, wallet: Pubkey, lamports: int, usdc: int) -> None:
    import httpx

    async with httpx.AsyncClient() as http:
        body = {"pubkey": str(wallet), "lamports": lamports, "usdc_base_units": usdc}
        reply = (await http.post(process.url + "/admin/fund", json=body)).json()
    assert reply["ok"], reply
    for text in reply["signatures"]:
        await client.confirm_transaction(Signature.from_string(text), Confirmed, sleep_seconds=0.02)


async def signed(client: AsyncClient, payer: Keypair, *instructions: object) -> VersionedTransaction:
    blockhash = (await client.get_latest_blockhash(Confirmed)).value.blockhash
    return VersionedTransaction(MessageV0.try_compile(payer.pubkey(), list(instructions), [], blockhash), [payer])


async def test_a_payment_from_blockhash_to_history(start_devnode: StartDevnode) -> None:
    """The whole life of a transfer, decoded by the types of an independent client."""
    process = start_devnode()
    async with AsyncClient(process.url, Confirmed) as client:
        assert str((await client.get_genesis_hash()).value) == GENESIS_HASH
        payer, receiver = Keypair(), Pubkey.new_unique()
        await fund(client, process, payer.pubkey(), 10**9, 0)
        latest = (await client.get_latest_blockhash(Confirmed)).value
        give = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=receiver, lamports=2_000_000))
        transaction = await signed(client, payer, give)
        sent = await client.send_transaction(transaction, TxOpts(preflight_commitment=Confirmed))
        assert sent.value == transaction.signatures[0]
        status = await client.confirm_transaction(
            sent.value, Confirmed, sleep_seconds=0.02, last_valid_block_height=latest.last_valid_block_height
        )
        assert status.value[0] is not None and status.value[0].err is None
        assert (await client.get_balance(receiver, Confirmed)).value == 2_000_000
        assert (await client.get_balance(payer.pubkey(), Confirmed)).value == 10**9 - 2_000_000 - 5_000
        for encoding in ("json", "base64", "jsonParsed"):
            shown = await client.get_transaction(sent.value, encoding, Confirmed, 0)
            assert shown.value is not None
            meta = shown.value.transaction.meta
            assert meta is not None and meta.fee == 5_000 and meta.err is None
            assert meta.pre_balances[1] == 0 and meta.post_balances[1] == 2_000_000
        history = await client.get_signatures_for_address(receiver, commitment=Confirmed)
        assert [entry.signature for entry in history.value] == [sent.value]
        block = await client.get_block(shown.value.slot, "json", 0)
        assert block.value is not None and len(block.value.transactions or []) >= 1


async def test_usdc_is_paid_and_read_back_parsed(start_devnode: StartDevnode) -> None:
    """An associated account is made, USDC moves by transferChecked, and jsonParsed shows the right amounts."""
    process = start_devnode()
    async with AsyncClient(process.url, Confirmed) as client:
        payer, receiver = Keypair(), Pubkey.new_unique()
        await fund(client, process, payer.pubkey(), 10**9, 5_000_000)
        source = get_associated_token_address(payer.pubkey(), USDC_MINT)
        target = get_associated_token_address(receiver, USDC_MINT)
        pay = TransferCheckedParams(
            program_id=TOKEN_PROGRAM_ID,
            source=source,
            mint=USDC_MINT,
            dest=target,
            owner=payer.pubkey(),
            amount=1_250_000,
            decimals=6,
            signers=[],
        )
        transaction = await signed(
            client,
            payer,
            create_idempotent_associated_token_account(payer.pubkey(), receiver, USDC_MINT),
            transfer_checked(pay),
        )
        sent = await client.send_transaction(transaction, TxOpts(preflight_commitment=Confirmed))
        await client.confirm_transaction(sent.value, Confirmed, sleep_seconds=0.02)
        assert (await client.get_token_account_balance(target, Confirmed)).value.amount == "1250000"
        parsed = (await client.get_account_info_json_parsed(target, Confirmed)).value
        assert parsed is not None and parsed.data.parsed["info"]["tokenAmount"]["uiAmountString"] == "1.25"
        shown = (await client.get_transaction(sent.value, "jsonParsed", Confirmed, 0)).value
        assert shown is not None
        last = shown.transaction.transaction.message.instructions[-1]
        assert last.parsed["type"] == "transferChecked"
        assert last.parsed["info"]["tokenAmount"]["amount"] == "1250000"
        balances = shown.transaction.meta.post_token_balances
        assert {balance.ui_token_amount.amount for balance in balances} == {"1250000", "3750000"}


async def test_what_cannot_work_is_refused_before_it_is_sent(start_devnode: StartDevnode) -> None:
    """Simulation and preflight report the program's error; nothing lands and nothing is charged."""
    process = start_devnode()
    async with AsyncClient(process.url, Confirmed) as client:
        payer = Keypair()
        await fund(client, process, payer.pubkey(), 10**9, 0)
        too_much = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=10**12))
        transaction = await signed(client, payer, too_much)
        tried = await client.simulate_transaction(transaction, sig_verify=True, commitment=Confirmed)
        assert tried.value.err is not None and "insufficient lamports" in "".join(tried.value.logs or [])
        with pytest.raises(RPCException) as caught:
            await client.send_transaction(transaction, TxOpts(preflight_commitment=Confirmed))
        failure = caught.value.args[0]
        assert isinstance(failure, SendTransactionPreflightFailureMessage)
        assert failure.message == (
            "Transaction simulation failed: Error processing Instruction 0: custom program error: 0x1"
        )
        assert (await client.get_balance(payer.pubkey(), Processed)).value == 10**9
        assert (await client.get_signature_statuses([transaction.signatures[0]])).value == [None]


async def test_the_reads_of_the_client_decode(start_devnode: StartDevnode) -> None:
    """Every read that the library offers has a shape that it decodes."""
    process = start_devnode()
    async with AsyncClient(process.url, Finalized) as client:
        mint_info = (await client.get_account_info(USDC_MINT)).value
        assert mint_info is not None and mint_info.owner == TOKEN_PROGRAM_ID
        slot = (await client.get_slot()).value
        assert (await client.get_block_height()).value < slot
        assert (await client.get_block_time(slot)).value > 0
        assert slot in (await client.get_blocks(slot - 2, slot)).value
        assert (await client.get_block_commitment(slot)).value.total_stake > 0
        assert (await client.get_cluster_nodes()).value[0].pubkey == (await client.get_identity()).value.identity
        assert (await client.get_epoch_info()).value.absolute_slot >= slot
        assert (await client.get_epoch_schedule()).value.slots_per_epoch == 432_000
        assert (await client.get_first_available_block()).value <= slot
        assert (await client.get_inflation_governor()).value.initial == 0
        assert (await client.get_inflation_rate()).value.total == 0
        assert (await client.get_largest_accounts()).value[0].lamports > 0
        assert (await client.get_leader_schedule()).value is not None
        assert (await client.get_minimum_balance_for_rent_exemption(165)).value == 2_039_280
        assert (await client.get_multiple_accounts([USDC_MINT, Pubkey.new_unique()])).value[1] is None
        assert (await client.get_recent_performance_samples(3)).value == []
        assert (await client.get_recent_prioritization_fees()).value[-1].prioritization_fee == 0
        assert (await client.get_slot_leader()).value in (await client.get_slot_leaders(slot, 1_000)).value
        supply = (await client.get_supply()).value
        assert supply.total == supply.circulating + supply.non_circulating
        assert (await client.get_token_supply(USDC_MINT)).value.decimals == 6
        assert (await client.get_transaction_count()).value == 0
        assert (await client.get_version()).value.solana_core
        assert len((await client.get_vote_accounts()).value.current) == 3
        assert (await client.get_minimum_ledger_slot()).value <= slot
        assert await client.is_connected()
