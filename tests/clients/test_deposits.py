"""Money in, against the whole product: a wallet that was never seen pays by solana-py and calls."""

import asyncio
import hashlib
import json
import secrets
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import transfer_checked
from spl.token.models import TransferCheckedParams

from bench.product import Product, command, environment
from tests.clients.test_readme import example
from tests.product import processes_of

_RUN_SECONDS = 180
_FINAL_SECONDS = 180  # 32 slots of 400 ms, and the machine may be busy.
PATH = "/account/confirm-deposit"


def funded(product: Product, usdc_base_units: int = 10**7) -> Keypair:
    """A wallet whose money is confirmed: what it sends is simulated at that commitment first."""
    wallet, node_url = Keypair(), str(product.ready["node_url"])
    body = {"pubkey": str(wallet.pubkey()), "lamports": 10**9, "usdc_base_units": usdc_base_units}
    answer = httpx.post(f"{node_url}/admin/fund", json=body, timeout=90)
    assert answer.status_code == 200, answer.text
    question = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "getBalance",
        "params": [str(wallet.pubkey()), {"commitment": "confirmed"}],
    }
    deadline = time.monotonic() + _FINAL_SECONDS
    while not httpx.post(node_url, json=question, timeout=90).json()["result"]["value"]:
        assert time.monotonic() < deadline, "the faucet's transfer was never confirmed"
        time.sleep(0.1)
    return wallet


def headers(wallet: Keypair, method: str, path: str, body: bytes = b"") -> dict[str, str]:
    timestamp, nonce = str(int(time.time())), secrets.token_urlsafe(16)
    digest = hashlib.sha256(body).hexdigest() if method != "GET" else ""
    message = f"ledger-svc:v2:{method}:{path}:{timestamp}:{nonce}:{digest}"
    signature = str(wallet.sign_message(message.encode()))
    return {
        "X-Pubkey": str(wallet.pubkey()),
        "X-Signature": signature,
        "X-Timestamp": timestamp,
        "X-Nonce": nonce,
        "Content-Type": "application/json",
    }


async def deposit(product: Product, wallet: Keypair, *amounts: int) -> str:
    """One transaction with so many transfers; gives its signature."""
    async with httpx.AsyncClient() as client:
        refused = await client.post(product.http_url, json={"jsonrpc": "2.0", "id": 1, "method": "getSlot"})
    terms = refused.json()["error"]["data"]
    mint, service = Pubkey.from_string(terms["usdc_mint"]), Pubkey.from_string(terms["deposit_address"])
    source, target = (get_associated_token_address(owner, mint) for owner in (wallet.pubkey(), service))
    transfers = [
        transfer_checked(
            TransferCheckedParams(
                program_id=TOKEN_PROGRAM_ID,
                source=source,
                mint=mint,
                dest=target,
                owner=wallet.pubkey(),
                amount=amount,
                decimals=6,
            )
        )
        for amount in amounts
    ]
    async with AsyncClient(str(product.ready["node_url"]), commitment=Confirmed) as node:
        blockhash = (await node.get_latest_blockhash()).value.blockhash
        message = MessageV0.try_compile(wallet.pubkey(), transfers, [], blockhash)
        return str((await node.send_transaction(VersionedTransaction(message, [wallet]))).value)


def info(product: Product, wallet: Keypair) -> httpx.Response:
    signed = headers(wallet, "GET", "/account/info")
    return httpx.get(f"{product.http_url}/account/info", headers=signed, timeout=90)


def credited(product: Product, wallet: Keypair) -> dict[str, object]:
    """The account as soon as it is there: nobody confirms anything, the watcher does it by itself."""
    deadline = time.monotonic() + _FINAL_SECONDS
    while time.monotonic() < deadline:
        answer = info(product, wallet)
        if answer.status_code == 200:
            account: dict[str, object] = answer.json()
            return account
        assert answer.status_code == 404, answer.text
        time.sleep(0.5)
    raise AssertionError("nothing was credited in time")


def test_the_deposit_client_runs_as_printed(product: Product, tmp_path: Path) -> None:
    """An empty wallet deposits by solana-py and calls, with no library of ours."""
    code = example("deposit-client")
    assert "actors" not in code
    script = tmp_path / "client.py"
    script.write_text(code, encoding="utf-8")
    wallet = funded(product)
    settings = {
        "GATEWAY_URL": product.http_url,
        "NODE_URL": str(product.ready["node_url"]),
        "WALLET_SECRET_KEY": str(wallet),
    }
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**environment({}), **settings},
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "balance: 25000" in done.stdout and "credits left: 24999" in done.stdout


async def test_fifty_confirmations_and_the_watcher_credit_once(product: Product) -> None:
    """Threat 22 through real doors and a real watcher: it hears of the transfer at the same moment."""
    wallet = funded(product)
    signature = await deposit(product, wallet, 10_000, 15_000)
    body = json.dumps({"signature": signature}).encode()
    added = 0
    deadline = time.monotonic() + _FINAL_SECONDS
    async with httpx.AsyncClient(base_url=product.http_url, timeout=90) as client:
        while True:
            answers = await asyncio.gather(
                *(client.post(PATH, content=body, headers=headers(wallet, "POST", PATH, body)) for _ in range(50))
            )
            told = [answer.json() for answer in answers if answer.status_code == 200]
            for answer in answers:
                assert answer.status_code in (200, 404, 503), answer.text
            added += sum(row["credits_added"] for row in told)
            assert all(row["already_processed"] for row in told if row["credits_added"] == 0)
            if len(told) == 50:
                break
            assert time.monotonic() < deadline, [answer.text for answer in answers][:3]
            await asyncio.sleep(0.2)
        listed = await client.get("/account/ledger", headers=headers(wallet, "GET", "/account/ledger"))
    assert added in (0, 2_500)  # 0: the watcher was first.
    assert info(product, wallet).json()["balance"] == 2_500
    entries = listed.json()["entries"]
    assert [(row["type"], row["amount"]) for row in entries] == [("deposit", 1_500), ("deposit", 1_000)]


@pytest.mark.kills
async def test_a_killed_watcher_credits_what_came_while_it_was_dead(product: Product) -> None:
    """Restarted by Ray, begun by the next question, on from its cursor: nobody confirms anything."""
    (watcher,) = processes_of(product, "ray::DepositWatcher")
    psutil.Process(watcher).kill()
    wallet = funded(product)
    await deposit(product, wallet, 123_450)
    account = await asyncio.to_thread(credited, product, wallet)
    assert account["balance"] == 12_345
    last = account["last_deposit"]
    assert isinstance(last, dict) and (last["amount_usdc"], last["credits"]) == ("0.12345", 12_345)


def test_the_books_and_the_chain_agree(product: Product) -> None:
    """The audit: credits granted equal USDC received on chain times the rate, to the unit, on everything that the
    tests before have paid in."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "actors.deposits.audit"),
            *("--data-dir", str(product.data_dir), "--node-url", str(product.ready["node_url"])),
        ],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agree" in done.stdout


def test_the_operator_sees_them(product: Product) -> None:
    done = subprocess.run(
        command("deposits", "list", "--status", "all", "--data-dir", str(product.data_dir)),
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0.25" in done.stdout and "25,000 credits of" in done.stdout
