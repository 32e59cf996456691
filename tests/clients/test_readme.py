"""The examples in the pages for clients do what the pages say, as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from bench.product import ROOT, Product, environment

_EXAMPLE = re.compile(r"<!-- example: (?P<name>[a-z-]+) -->\s*```python\n(?P<code>.*?)```", re.DOTALL)
_PAGES = ("README.md", "actors/deposits/PAYING.md", "actors/streams/README.md")
_RUN_SECONDS = 180


def example(name: str) -> str:
    """Returns the Python block after `<!-- example: NAME -->` in one of the pages for clients."""
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in _PAGES)
    found = {match["name"]: match["code"] for match in _EXAMPLE.finditer(text)}
    assert name in found, f"none of {_PAGES} has a python block after <!-- example: {name} -->"
    return found[name]


def test_the_wallet_client_runs_as_printed(product: Product, tmp_path: Path) -> None:
    """A client that signs each request itself: no API key, no session, no library of ours, about thirty lines."""
    settings = {"GATEWAY_URL": product.http_url, "WALLET_SECRET_KEY": str(product.ready["secret_key"])}
    _run_charged("wallet-client", product, tmp_path, settings)


def test_the_websocket_client_runs_as_printed(product: Product, tmp_path: Path) -> None:
    """A subscription, three notifications, and its end, with the key in a header."""
    settings = {"GATEWAY_WS_URL": str(product.ready["ws_url"]), "API_KEY": str(product.ready["api_key"])}
    assert _run_charged("websocket-client", product, tmp_path, settings).count("'slot'") == 3


def _run_charged(name: str, product: Product, folder: Path, settings: dict[str, str]) -> str:
    """What an example prints. It is charged for what it asks."""
    code = example(name)
    assert "actors" not in code
    script = folder / "client.py"
    script.write_text(code, encoding="utf-8")
    before = product.account()["total_consumed_credits"]
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**environment({}), **settings, "HOME": os.environ.get("HOME", str(folder))},
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert product.account()["total_consumed_credits"] > before
    return done.stdout
