"""chainbench, unmodified: its load profile of Solana through the gateway, from another environment."""

import csv
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.product import Product
from tests.customers import Customer

_SECONDS_MAX = 180
_USERS, _LOAD_SECONDS = 20, 4
# Before its load it asks for the newest block until it has ten with transactions, without a pause: on a quick machine
# more often than the usual 100 times a second, and a 429 then ends it.
_REQUESTS_PER_SECOND, _CONCURRENCY, _CREDITS = 100_000, 1_000, 10_000_000
# What the profile asks for and this service denies everybody: interface, JSON-RPC gateway rule 1.
_DENIED = "getProgramAccounts"


@pytest.fixture
def busy_chain(product: Product) -> Iterator[None]:
    """The profile takes its accounts and transactions from blocks, and waits for blocks that have some."""
    url = f"{product.ready['node_url']}/admin/crowd"
    httpx.post(url, json={"load": 0.02}, timeout=30).raise_for_status()
    yield
    httpx.post(url, json={"load": None}, timeout=30).raise_for_status()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.usefixtures("busy_chain")
def test_the_profile_of_solana_fails_nowhere(product: Product, python_of_chainbench: Path, tmp_path: Path) -> None:
    """Every call is answered; only the method that is denied everybody is refused."""
    customer = Customer(product)
    customer.grant(_CREDITS)
    customer.limits(_REQUESTS_PER_SECOND, _CONCURRENCY)
    target = f"{product.http_url}/?api-key={customer.api_key}"
    options = {
        "--profile": "solana.general",
        "--users": str(_USERS),
        "--spawn-rate": str(_USERS),
        "--workers": "1",
        "--test-time": f"{_LOAD_SECONDS}s",
        "--size": "XS",
        "--target": target,
        "--results-dir": str(tmp_path),
        "--port": str(_free_port()),
    }
    named = [word for option in options.items() for word in option]
    # It starts `locust` from the PATH. The one of the environment names the folder that it was installed in, not this.
    command = tmp_path / "locust"
    command.write_text(f'#!/bin/sh\nexec {python_of_chainbench} -m locust "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [python_of_chainbench, "-m", "chainbench", "start", *named, "--use-latest-blocks", "--headless", "--autoquit"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    reports = list(tmp_path.rglob("report.csv_stats.csv"))
    assert reports, done.stdout + done.stderr
    report = reports[0]
    with report.open(encoding="utf-8") as file:
        rows = {row["Name"]: row for row in csv.DictReader(file)}
    assert int(rows["Aggregated"]["Request Count"]) >= 2 * _USERS, done.stdout + done.stderr
    failed = {
        name: row for name, row in rows.items() if name not in ("Aggregated", _DENIED) and row["Failure Count"] != "0"
    }
    assert not failed, (failed, (report.parent / "report.csv_failures.csv").read_text(encoding="utf-8"))
