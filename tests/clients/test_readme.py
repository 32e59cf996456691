"""The examples in the pages for clients do what the pages say, as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from bench.product import ROOT, Product, environment

_EXAMPLE = re.compile(r"<!-- example: (?P<name>[a-z-]+) -->\s*```(?:python|js|ts|sh)\n(?P<code>.*?)```", re.DOTALL)
_PAGES = (
    *("README.md", "actors/deposits/PAYING.md", "ledger_gateway/cli/README.md", "actors/signals/README.md"),
    *("actors/streams/README.md", "actors/streams/GRPC.md"),
)
_RUN_SECONDS = 180


def example(name: str) -> str:
    """Returns the block of code after `<!-- example: NAME -->` in one of the pages for clients."""
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in _PAGES)
    found = {match["name"]: match["code"] for match in _EXAMPLE.finditer(text)}
    assert name in found, f"none of {_PAGES} has a block of code after <!-- example: {name} -->"
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
    """Return the output of an example, which must be charged for its calls."""
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


def test_the_first_commands_run_as_printed(product: Product, tmp_path: Path) -> None:
    """From nothing to a paid call: a wallet, its key, the faucet, a deposit by the node. Only ports are the test's."""
    activate, *lines = example("first-commands").splitlines()
    assert activate.startswith(". .venv/bin/activate")
    node_url = str(product.ready["node_url"])
    settings = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "LEDGER_GATEWAY_URL": product.http_url,
    }
    for line in lines:
        command = line.partition("  #")[0].replace("http://127.0.0.1:8899", node_url)
        command += f" --url {node_url}" if "devnode fund" in command else " --yes" if "deposit" in command else ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**environment({}), **settings},
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)


def test_the_frame_of_signals_is_made_as_printed(product: Product, tmp_path: Path) -> None:
    """Signals of a running service as a frame and a file, by the public pages alone."""
    done = subprocess.run(
        [sys.executable, "-c", example("signals-frame")],
        cwd=tmp_path,
        env={
            **environment({}),
            "GATEWAY_URL": product.http_url,
            "API_KEY": product.api_key,
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0 and (tmp_path / "signals.parquet").exists(), done.stderr
