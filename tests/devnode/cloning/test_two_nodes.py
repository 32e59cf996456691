"""Two devnode processes: one clones from the other, through solana-py and TPU clients as anyone would use it."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest
from solana.rpc.async_api import AsyncClient as Client
from solana.rpc.commitment import Confirmed
from solana.rpc.core import RPCException
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from tests.devnode.conftest import Process


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Process]]:
    folder = tmp_path_factory.mktemp("nodes")
    first = Process(folder / "first")
    second = Process(folder / "second", "--clone-from", first.url)
    yield first, second
    for process in (second, first):
        if process.popen.poll() is None:
            assert process.terminate() == 0


def client(process: Process) -> Client:
    return Client(process.url, Confirmed)


def posted(url: str, body: object, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.post(url, json=body, headers=headers)


def fund(url: str, pubkey: Pubkey, lamports: int, usdc: int = 0) -> dict[str, str]:
    body = {"pubkey": str(pubkey), "lamports": lamports, "usdc_base_units": usdc}
    reply = posted(f"{url}/admin/fund", body)
    assert reply.status_code == 200, reply.text
    found: dict[str, str] = reply.json()
    return found


async def confirmed(asked: Client, signature: str) -> None:
    await asked.confirm_transaction(Signature.from_string(signature))


async def test_a_client_of_the_clone_uses_accounts_of_the_other(pair: tuple[Process, Process]) -> None:
    """The wallet and its tokens are read and spent on the clone; the other node keeps what it had."""
    first, second = pair
    wallet, receiver = Keypair(), Pubkey.new_unique()
    funded = fund(first.url, wallet.pubkey(), 10**9, 5_000_000)
    original, clone = client(first), client(second)
    await confirmed(original, funded["usdc_signature"])
    assert (await clone.get_balance(wallet.pubkey())).value == 10**9
    token_account = Pubkey.from_string(funded["token_account"])
    shown = (await clone.get_token_account_balance(token_account)).value
    assert shown.amount == "5000000"
    blockhash = (await clone.get_latest_blockhash()).value.blockhash
    pay = transfer(TransferParams(from_pubkey=wallet.pubkey(), to_pubkey=receiver, lamports=10**8))
    signed = VersionedTransaction(MessageV0.try_compile(wallet.pubkey(), [pay], [], blockhash), [wallet])
    signature = (await clone.send_transaction(signed)).value
    await clone.confirm_transaction(signature)
    assert (await clone.get_balance(receiver)).value == 10**8
    assert (await original.get_balance(receiver)).value == 0 and (
        await original.get_balance(wallet.pubkey())
    ).value == 10**9


async def test_funding_adds_to_what_the_other_node_has(pair: tuple[Process, Process]) -> None:
    first, second = pair
    wallet = Pubkey.new_unique()
    await confirmed(client(first), fund(first.url, wallet, 10**9)["sol_signature"])
    funded = fund(second.url, wallet, 5)
    await confirmed(client(second), funded["sol_signature"])
    assert (await client(second).get_balance(wallet)).value == 10**9 + 5


async def test_nothing_is_cloned_for_another_node_that_clones(pair: tuple[Process, Process]) -> None:
    """Otherwise two nodes that clone from each other would wait for each other."""
    first, second = pair
    wallet = Pubkey.new_unique()
    await confirmed(client(first), fund(first.url, wallet, 10**9)["sol_signature"])
    call = {"jsonrpc": "2.0", "id": 1, "method": "getBalance", "params": [str(wallet)]}
    asked_by_a_clone = posted(second.url, call, headers={"x-devnode-cloning": "1"})
    assert asked_by_a_clone.json()["result"]["value"] == 0
    assert posted(second.url, call).json()["result"]["value"] == 10**9


def test_a_batch_and_a_call_that_reads_no_account(pair: tuple[Process, Process]) -> None:
    _, second = pair
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "getSlot"},
        {"jsonrpc": "2.0", "id": 2, "method": "getBalance", "params": [str(Pubkey.new_unique())]},
    ]
    answers = posted(second.url, calls).json()
    assert [one["id"] for one in answers] == [1, 2] and answers[1]["result"]["value"] == 0


async def test_the_other_node_ends_and_the_clone_starts_again(pair: tuple[Process, Process], tmp_path: object) -> None:
    """Without the other node, what was cloned is still there, also after a kill and a restart; the rest is an error."""
    first, second = pair
    wallet = Pubkey.new_unique()
    await confirmed(client(first), fund(first.url, wallet, 10**9)["sol_signature"])
    clone = client(second)
    assert (await clone.get_balance(wallet)).value == 10**9
    deadline = time.monotonic() + 30
    slot = (await clone.get_slot()).value
    while (await clone.get_slot()).value <= slot + 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    assert first.terminate() == 0
    second.kill()
    again = Process(second.data_dir, "--clone-from", first.url)
    try:
        clone = client(again)
        assert (await clone.get_balance(wallet)).value == 10**9
        stranger = Pubkey.new_unique()
        call = {"jsonrpc": "2.0", "id": 7, "method": "getBalance", "params": [str(stranger)]}
        reply = posted(again.url, call).json()
        assert reply["id"] == 7 and reply["error"]["code"] == -32603
        assert reply["error"]["message"].startswith(f"cannot fetch account {stranger} from {first.url}: ")
        assert "error" in posted(again.url, [call]).json()[0]
        refused = posted(f"{again.url}/admin/fund", {"pubkey": str(stranger), "lamports": 5})
        assert refused.status_code == 502 and refused.json()["ok"] is False
        blockhash = (await clone.get_latest_blockhash()).value.blockhash
        payer = Keypair()
        note = Instruction(Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"), b"x", [])
        signed = VersionedTransaction(MessageV0.try_compile(payer.pubkey(), [note], [], blockhash), [payer])
        with pytest.raises(RPCException, match="cannot fetch account"):
            await clone.simulate_transaction(signed)
    finally:
        assert again.terminate() == 0


def test_what_the_command_line_refuses(tmp_path: object) -> None:
    from tests.devnode.test_main import run

    refused = run("--clone-from", "user:word@nowhere", "--http-port", "0")
    assert refused.returncode == 2 and "--clone-from: wanted http://HOST:PORT" in refused.stderr
    assert "word" not in refused.stderr
