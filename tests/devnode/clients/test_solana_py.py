"""solana-py and solders, unmodified, straight at a devnode: lookup tables, v1, tokens, subscriptions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Finalized, Processed
from solana.rpc.core import RPCException
from solana.rpc.models import TxOpts
from solana.rpc.websocket_api import SolanaWsClient
from solders.address_lookup_table_account import (
    ADDRESS_LOOKUP_TABLE_ID,
    AddressLookupTable,
    AddressLookupTableAccount,
    derive_lookup_table_address,
)
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.rpc import responses
from solders.signature import Signature
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.system_program import CreateAccountParams, create_account
from solders.transaction import VersionedTransaction
from spl.token.constants import MINT_LEN, TOKEN_PROGRAM_ID
from spl.token.instructions import (
    create_associated_token_account,
    get_associated_token_address,
    initialize_mint,
    mint_to,
    transfer_checked,
)
from spl.token.models import InitializeMintParams, MintToParams, TransferCheckedParams

from tests.devnode.conftest import Process, StartDevnode
from tests.devnode.local_node import give

RECEIVE_SECONDS_MAX = 60
LOOKS_MAX = 500
OPTIONS = TxOpts(preflight_commitment=Confirmed)


class Wallet:
    def __init__(self, process: Process, client: AsyncClient) -> None:
        self.process, self.client, self.keypair = process, client, Keypair()

    @property
    def pubkey(self) -> Pubkey:
        return self.keypair.pubkey()

    async def fund(self) -> None:
        await self._confirm((await self.client.request_airdrop(self.pubkey, 10**10)).value)

    async def _confirm(self, signature: Signature) -> Signature:
        status = (await self.client.confirm_transaction(signature, Confirmed, sleep_seconds=0.02)).value[0]
        assert status is not None and status.err is None, status
        return signature

    async def land(
        self,
        *instructions: Instruction,
        tables: Sequence[AddressLookupTableAccount] = (),
        signers: Sequence[Keypair] = (),
        config: TransactionConfig | None = None,
    ) -> Signature:
        """As v1 where there is a configuration, else as v0; sent with preflight, and confirmed."""
        blockhash = (await self.client.get_latest_blockhash(Confirmed)).value.blockhash
        message: MessageV0 | MessageV1
        if config is not None:
            message = MessageV1.try_compile(self.pubkey, list(instructions), blockhash, config=config)
        else:
            message = MessageV0.try_compile(self.pubkey, list(instructions), list(tables), blockhash)
        transaction = VersionedTransaction(message, [self.keypair, *signers])
        return await self._confirm((await self.client.send_transaction(transaction, OPTIONS)).value)


@pytest.fixture
async def wallet(start_devnode: StartDevnode) -> AsyncIterator[Wallet]:
    process = start_devnode()
    async with AsyncClient(process.url, Confirmed) as client:
        made = Wallet(process, client)
        await made.fund()
        yield made


def table_instructions(authority: Pubkey, recent_slot: int, keys: list[Pubkey]) -> tuple[Pubkey, list[Instruction]]:
    table, bump = derive_lookup_table_address(authority, recent_slot)
    accounts = [
        AccountMeta(table, False, True),
        AccountMeta(authority, True, False),
        AccountMeta(authority, True, True),
        AccountMeta(SYSTEM_PROGRAM, False, False),
    ]
    create = (0).to_bytes(4, "little") + recent_slot.to_bytes(8, "little") + bytes((bump,))
    extend = (2).to_bytes(4, "little") + len(keys).to_bytes(8, "little") + b"".join(map(bytes, keys))
    return table, [Instruction(ADDRESS_LOOKUP_TABLE_ID, data, accounts) for data in (create, extend)]


async def test_a_lookup_table_is_made_filled_and_used(wallet: Wallet) -> None:
    """It may be used from the slot after the one that filled it."""
    client = wallet.client
    recent = (await client.get_slot(Finalized)).value
    keys = [Pubkey.new_unique() for _ in range(3)]
    table, instructions = table_instructions(wallet.pubkey, recent, keys)
    await wallet.land(*instructions)
    account = (await client.get_account_info(table)).value
    assert account is not None
    held = AddressLookupTable.deserialize(account.data)
    assert held.addresses == keys
    for _ in range(LOOKS_MAX):
        if (await client.get_slot()).value > held.meta.last_extended_slot:
            break
        await asyncio.sleep(0.02)
    given = [give(wallet.keypair, key, 2_000_000) for key in keys]
    signature = await wallet.land(*given, tables=[AddressLookupTableAccount(table, keys)])
    shown = (await client.get_transaction(signature, "base64", Confirmed, 0)).value
    assert shown is not None
    transaction = shown.transaction.transaction
    assert isinstance(transaction, VersionedTransaction) and len(transaction.message.account_keys) == 2
    meta = shown.transaction.meta
    assert meta is not None and meta.loaded_addresses is not None and meta.loaded_addresses.writable == keys
    assert [(await client.get_balance(key)).value for key in keys] == [2_000_000] * 3


async def test_a_v1_transaction_from_wallet_to_history(wallet: Wallet) -> None:
    """Built and signed by solders; hidden from clients that do not say that they know v1."""
    client, receiver = wallet.client, Pubkey.new_unique()
    config = TransactionConfig(priority_fee=777, compute_unit_limit=1_000, loaded_accounts_data_size_limit=1_000)
    signature = await wallet.land(give(wallet.keypair, receiver, 2_000_000), config=config)
    assert (await client.get_balance(receiver)).value == 2_000_000
    for encoding in ("json", "jsonParsed", "base64"):
        shown = (await client.get_transaction(signature, encoding, Confirmed, 1)).value
        assert shown is not None and shown.transaction.version == 1
        meta = shown.transaction.meta
        assert meta is not None and (meta.fee, meta.err) == (5_777, None)
    with pytest.raises(RPCException, match=r"Transaction version \(1\) is not supported"):
        await client.get_transaction(signature, "json", Confirmed, 0)
    assert shown is not None
    block = (await client.get_block(shown.slot, "json", 1)).value
    assert block is not None and 1 in [one.version for one in block.transactions or []]


async def test_a_mint_is_made_and_its_tokens_move(wallet: Wallet) -> None:
    client, mint, owner = wallet.client, Keypair(), Pubkey.new_unique()
    rent = (await client.get_minimum_balance_for_rent_exemption(MINT_LEN)).value
    made = CreateAccountParams(
        from_pubkey=wallet.pubkey, to_pubkey=mint.pubkey(), lamports=rent, space=MINT_LEN, owner=TOKEN_PROGRAM_ID
    )
    source = get_associated_token_address(wallet.pubkey, mint.pubkey())
    target = get_associated_token_address(owner, mint.pubkey())
    await wallet.land(
        create_account(made),
        initialize_mint(
            InitializeMintParams(
                decimals=6, program_id=TOKEN_PROGRAM_ID, mint=mint.pubkey(), mint_authority=wallet.pubkey
            )
        ),
        create_associated_token_account(wallet.pubkey, wallet.pubkey, mint.pubkey()),
        create_associated_token_account(wallet.pubkey, owner, mint.pubkey()),
        mint_to(
            MintToParams(
                program_id=TOKEN_PROGRAM_ID,
                mint=mint.pubkey(),
                dest=source,
                mint_authority=wallet.pubkey,
                amount=5_000_000,
            )
        ),
        signers=[mint],
    )
    moved = TransferCheckedParams(
        program_id=TOKEN_PROGRAM_ID,
        source=source,
        mint=mint.pubkey(),
        dest=target,
        owner=wallet.pubkey,
        amount=1_250_000,
        decimals=6,
    )
    await wallet.land(transfer_checked(moved))
    assert (await client.get_token_account_balance(target)).value.amount == "1250000"
    assert (await client.get_token_account_balance(source)).value.amount == "3750000"
    assert (await client.get_token_supply(mint.pubkey())).value.amount == "5000000"


async def receive(client: SolanaWsClient, kind: type) -> Any:
    async with asyncio.timeout(RECEIVE_SECONDS_MAX):
        while not isinstance(found := await client.recv(), kind):
            pass
    return found


async def test_a_payment_is_confirmed_and_heard_over_websocket(wallet: Wallet) -> None:
    """Signature, account, logs and slots, all by the library's own client and types."""
    receiver = Pubkey.new_unique()
    blockhash = (await wallet.client.get_latest_blockhash(Confirmed)).value.blockhash
    message = Message.new_with_blockhash([give(wallet.keypair, receiver, 2_000_000)], wallet.pubkey, blockhash)
    transaction = VersionedTransaction(message, [wallet.keypair])
    async with SolanaWsClient(wallet.process.facts["ws_url"]) as client:
        await client.account_subscribe(pubkey=receiver, commitment=Confirmed, encoding="base64")
        await client.logs_subscribe(commitment=Processed)
        await client.slot_subscribe()
        await client.signature_subscribe(signature=transaction.signatures[0], commitment=Confirmed)
        await wallet.client.send_transaction(transaction, OPTIONS)
        logs = (await receive(client, responses.LogsNotification)).result.value
        assert logs.signature == transaction.signatures[0] and logs.err is None
        heard: dict[type, Any] = {}
        kinds = (responses.AccountNotification, responses.SignatureNotification, responses.SlotNotification)
        async with asyncio.timeout(RECEIVE_SECONDS_MAX):
            while set(heard) < set(kinds):
                told = await client.recv()
                if isinstance(told, kinds):
                    heard[type(told)] = told
    assert heard[responses.AccountNotification].result.value.lamports == 2_000_000
    assert heard[responses.SignatureNotification].result.value.err is None
    assert heard[responses.SlotNotification].result.parent > 1_000
