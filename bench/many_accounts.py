"""Opens accounts with credits and an API key each on a running product of this machine, and prints the keys as JSON.

Run: `python -m bench.many_accounts DATA_DIR HTTP_URL --count N --credits N`. A process of its own, because it joins the
product's Ray once for all accounts. Each wallet asks for its key over HTTP, as any customer does.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from actors.accounts.api import AdjustCredits
from actors.launch.local_run import owner_commands as operator
from actors.launch.operator.money_commands import with_instance
from bench.product import ROOT, Product, ProductFailed, environment
from ledger_gateway.credentials import Wallet

_PATH, _BODY = "/account/api-key", b"{}"
_SECONDS = 90.0


def opened(product: Product, count: int, credits: int) -> list[str]:
    """Open accounts on this product, and return their keys. Raises ProductFailed."""
    command = [sys.executable, "-m", "bench.many_accounts", str(product.data_dir), product.http_url]
    command += ["--count", str(count), "--credits", str(credits)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(product.settings),
        capture_output=True,
        text=True,
        timeout=_SECONDS + count,
        check=False,
    )
    if done.returncode != 0:
        raise ProductFailed(f"accounts cannot be opened: {(done.stderr or done.stdout).strip()[-2_000:]}")
    return list(json.loads(done.stdout.splitlines()[-1]))


def new_key(http_url: str, wallet: Wallet) -> str:
    headers = wallet.headers("POST", _PATH, _BODY, time.time(), os.urandom(12).hex())
    asked = urllib.request.Request(
        f"{http_url}{_PATH}", data=_BODY, headers={**headers, "Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return str(json.loads(answer.read())["api_key"])


def main(
    data_dir: Path,
    http_url: str,
    count: Annotated[int, typer.Option(min=1)] = 64,
    credits: Annotated[int, typer.Option(min=1)] = 1_000_000_000,
) -> None:
    """Open accounts, give each credits and a key, and print the keys."""
    wallets = [Wallet.generate() for _ in range(count)]

    def grant(instance: operator.Instance) -> None:
        with operator.joined(instance):
            for wallet in wallets:
                account = operator.account_of(wallet.pubkey)
                operator.ask_owner_here(AdjustCredits(account, credits, "measurement", operator.new_operation()))

    with_instance(data_dir, grant)
    sys.stdout.write(f"{json.dumps([new_key(http_url, wallet) for wallet in wallets])}\n")


if __name__ == "__main__":
    typer.run(main)
