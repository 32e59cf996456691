"""`ledger-gateway` and the Python client against the whole product, from a new wallet to operators' commands."""

import asyncio
import base64
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import base58
import grpc.aio
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from websockets.asyncio.client import connect

from actors.geyser_proto import geyser_pb2
from bench.product import ROOT, Product
from ledger_gateway import Gateway, Session, Signal, Wallet
from tests.customers import Customer, request, rpc_body
from tests.signals import chain_calls

_COMMAND_SECONDS = 120
_RUN = "import sys; sys.argv[0] = 'ledger-gateway'; import serve_app; serve_app.command_line()"


class Terminal:
    """A user's shell, with a home of its own. Every command leaves the terminal as it was, within 80 columns."""

    def __init__(self, product: Product, home: Path) -> None:
        foreign = ("LEDGER_", "XDG_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self.environment |= {"HOME": str(home), "COLUMNS": "80", "LEDGER_GATEWAY_URL": product.http_url}
        self.environment |= {"PYTHONPATH": str(ROOT)}

    def run(
        self, *arguments: str, code: int = 0, given: str | None = None, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", _RUN, *arguments],
            env=self.environment | more,
            input=given,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert "\x1b" not in done.stdout + done.stderr and "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, **more: Any) -> Any:
        return json.loads(self.run(*arguments, "--json", **more).stdout)


@pytest.fixture
def terminal(product: Product, tmp_path: Path) -> Terminal:
    return Terminal(product, tmp_path)


def _pair(product: Product, folder: Path) -> Path:
    """Write the demo wallet, which has SOL and USDC, as solana-keygen does."""
    path = folder / "demo.json"
    Wallet(base58.b58decode(str(product.ready["secret_key"]))).save(path)
    return path


def _transfer(pair: Keypair, blockhash: str) -> str:
    target = TransferParams(from_pubkey=pair.pubkey(), to_pubkey=Keypair().pubkey(), lamports=2_000_000)
    message = MessageV0.try_compile(pair.pubkey(), [transfer(target)], [], Hash.from_string(blockhash))
    return base64.b64encode(bytes(VersionedTransaction(message, [pair]))).decode()


def test_a_customer_gets_from_nothing_to_a_confirmed_send(product: Product, terminal: Terminal, tmp_path: Path) -> None:
    """Wallet, key, deposit, calls, send, usage, runway: every command of a customer, with its effect on the ledger."""
    made = terminal.json("wallet", "new")
    assert stat.S_IMODE(Path(made["keypair"]).stat().st_mode) == 0o600
    assert "srpc_live_" not in terminal.run("key", "new").stdout
    assert terminal.json("balance")["balance"] == 0
    assert "deposit AMOUNT" in terminal.run("call", "getSlot", code=1).stderr
    pair, node = _pair(product, tmp_path), str(product.ready["node_url"])
    paid = terminal.json("deposit", "0.25", "--keypair", str(pair), "--node-url", node, "--yes")
    assert paid["credits"] == 25_000
    own: dict[str, Any] = {"LEDGER_GATEWAY_API_KEY": product.api_key}
    before = terminal.json("balance", **own)["balance"]
    assert terminal.json("quote", "getBlock", "5", **own)["credits"] == 25
    asked = terminal.run("call", "getBalance", product.pubkey, **own)
    assert json.loads(asked.stdout)["value"] > 0 and "cost 1" in asked.stderr
    assert "--max-credits" in terminal.run("call", "getBlock", "5", "--max-credits", "5", code=1, **own).stderr
    blockhash = terminal.json("call", "getLatestBlockhash", **own)["value"]["blockhash"]
    signed = _transfer(Keypair.from_base58_string(str(product.ready["secret_key"])), blockhash)
    sent = terminal.json("send", "-", given=signed, **own)
    assert sent["confirmed"] is True and sent["charged_credits"] == 50
    again = terminal.json("send", signed, "--idempotency-key", sent["idempotency_key"], **own)
    assert again["signature"] == sent["signature"]
    spent = before - terminal.json("balance", **own)["balance"]
    assert spent == 1 + 1 + 50
    rows = {row["method"]: row["credits"] for row in terminal.json("usage", "--by", "method", **own)["rows"]}
    assert rows["sendAndConfirm"] >= 50 and "sendAndConfirm," in terminal.run("usage", "--csv", **own).stdout
    assert terminal.json("runway", **own)["hours_left"] > 0
    logged = {(row["method"], row["outcome"], row["credits"]) for row in terminal.json("calls", **own)}
    wanted = ("getBalance", "result", 1), ("sendAndConfirm", "result", 50), ("getBlock", "MAX_CREDITS_EXCEEDED", 0)
    assert logged >= set(wanted)
    words = ("balance", "usage", "runway", "status", "calls")
    shown = [terminal.run(word, **own).stdout for word in words]
    assert max(len(line) for text in shown for line in text.splitlines()) <= 80


def test_webhooks_and_signals_from_a_shell(product: Product, terminal: Terminal, tmp_path: Path) -> None:
    """A webhook from its creation to its end, and the tail of signals while the chain has some."""
    own: dict[str, Any] = {"LEDGER_GATEWAY_API_KEY": product.api_key}
    secret = tmp_path / "secret"
    create = ("webhooks", "create", "http://127.0.0.1:9/x", "--type", "lifecycle", "--event", "low_balance")
    id = terminal.json(*create, "--secret-file", str(secret), **own)["id"]
    assert secret.read_text().startswith("whsec_") and stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert id in terminal.run("webhooks", "list", **own).stdout
    assert "nothing listens at" in terminal.run("webhooks", "test", id, code=1, **own).stdout
    assert terminal.json("webhooks", "deliveries", id, **own) == []
    assert terminal.json("webhooks", "replay", id, "--from", "1", "--to", "2", **own)["replayed"] == 0
    assert terminal.json("webhooks", "rotate", id, "--show-secret", **own)["secret"] != secret.read_text()
    terminal.run("webhooks", "delete", id, **own)
    terminal.run("webhooks", "delete", id, code=1, **own)
    stop = threading.Event()

    def launch_until_told() -> None:
        while not stop.wait(0.5):
            chain_calls.launch(str(product.ready["node_url"]))

    launching = threading.Thread(target=launch_until_told)
    launching.start()
    try:
        tail = terminal.run("signals", "tail", "--kind", "newPair", "--limit", "2", "--json", **own).stdout
    finally:
        stop.set()
        launching.join()
    lines = [json.loads(line) for line in tail.splitlines()]
    assert (
        len(lines) == 2 and {line["type"] for line in lines} == {"signal"} and lines[0]["cursor"] != lines[1]["cursor"]
    )
    assert terminal.json("signals", "recent", "--limit", "1")["events"]


def test_an_operator_has_the_same_commands_here(product: Product, terminal: Terminal) -> None:
    """Mounted, not written again: their effects are in the customer's ledger, and --json is a number, not a text."""
    customer, data = Customer(product), ("--data-dir", str(product.data_dir))
    assert terminal.json("adjust", customer.pubkey, "70", "--reason", "test", *data)["balance"] == 70
    assert terminal.json("adjust", customer.pubkey, "-20", "--reason", "test", *data)["balance"] == 50
    assert customer.balance == 50
    terminal.run("suspend", customer.pubkey, "--reason", "test", *data)
    refused = terminal.run("call", "getSlot", code=1, LEDGER_GATEWAY_API_KEY=customer.api_key)
    assert "suspended" in refused.stderr and "operator" in refused.stderr
    assert terminal.json("audit", *data)["differences"] == 0


async def _signals(gateway: Gateway, node_url: str) -> list[Any]:
    async with gateway.stream() as stream:
        events = aiter(await stream.signals(kinds=["newPair"]))
        await asyncio.to_thread(chain_calls.launch, node_url)
        async with asyncio.timeout(60):
            return [await anext(events)]


async def test_the_client_with_a_session_against_the_product(product: Product) -> None:
    """Behind the real front: a session, a batch, bulk, the ledger, a stream of signals; each charge as published."""
    secret = base58.b58decode(str(product.ready["secret_key"]))
    async with Gateway(product.http_url, Session(Wallet(secret))) as gateway:
        before = (await gateway.account()).balance
        ends = await gateway.batch([("getSlot",), ("getBalance", product.pubkey), ("getNothing",)])
        assert [end.error is None for end in ends] == [True, True, False]
        bulk = await gateway.bulk_balances([product.pubkey])
        assert bulk.results[0]["address"] == product.pubkey
        assert (await gateway.account()).balance == before - 3
        assert [entry.amount for entry in await gateway.ledger(limit=1)] == [-1]
        (event,) = await _signals(gateway, str(product.ready["node_url"]))
        assert isinstance(event, Signal) and event.kind == "newPair"
        await gateway.sign_out()


async def test_an_imported_legacy_key_opens_its_account_at_every_door(product: Product, terminal: Terminal) -> None:
    """Interface, "API key": 64 hexadecimal characters, by header and URL, over HTTP, WebSocket and gRPC; the key before
    it is refused, and so is an import of it for another account, which stops nobody."""
    customer, other = Customer(product), Customer(product)
    customer.grant(100)
    former, customer.api_key = customer.api_key, os.urandom(32).hex()
    data = ("--data-dir", str(product.data_dir))
    await asyncio.to_thread(
        terminal.run, "accounts", "import-key", customer.pubkey, *data, given=customer.api_key + "\n"
    )
    assert customer.info()["pubkey"] == customer.pubkey and customer.call("getSlot").status == 200
    by_url, call = f"?api-key={customer.api_key}", rpc_body("getSlot")
    answer = request(f"{product.http_url}/{by_url}", {"Content-Type": "application/json"}, call)
    assert "result" in answer.body, answer
    socket_url = product.http_url.replace("http", "ws", 1) + "/ws"
    for url, headers in ((socket_url + by_url, {}), (socket_url, {"X-Api-Key": customer.api_key})):
        async with connect(url, additional_headers=headers) as socket, asyncio.timeout(30):
            await socket.send(call.decode())
            assert "result" in json.loads(await socket.recv())
    async with grpc.aio.insecure_channel(str(product.ready["grpc_target"])) as channel:
        ask = channel.unary_unary(
            "/geyser.Geyser/GetVersion",
            request_serializer=geyser_pb2.GetVersionRequest.SerializeToString,
            response_deserializer=geyser_pb2.GetVersionResponse.FromString,
        )
        assert (await ask(geyser_pb2.GetVersionRequest(), metadata=(("x-token", customer.api_key),))).version
    assert request(f"{product.http_url}/account/info", {"X-Api-Key": former}).status == 401
    refused = await asyncio.to_thread(
        terminal.run, "accounts", "import-key", other.pubkey, *data, given=customer.api_key + "\n", code=1
    )
    assert "another account" in refused.stderr + refused.stdout
    debits = [entry["description"] for entry in customer.entries() if entry["type"] == "debit"]
    assert len(debits) == 5, debits
    assert sum(debit.startswith("getSlot") for debit in debits) == 4, debits
