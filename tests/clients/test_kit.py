"""@solana/kit, unmodified, through the gateway: a full transfer from node."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.product import Product

LAMPORTS = 2_000_000
_HERE = Path(__file__).parent
_INSTALL_SECONDS = 180
_RUN_SECONDS = 90
_NODE_MAJOR_MIN = 20
# What npm says when the registry cannot be reached; anything else is a failure of the test.
_OUT_OF_REACH = (
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ENETUNREACH",
    "ERR_SOCKET_TIMEOUT",
)


@pytest.fixture(scope="session")
def kit_folder(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of package.json; kept between runs, made anew when that file changes."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not on the PATH")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < _NODE_MAJOR_MIN:
        pytest.skip(f"node {version} is older than {_NODE_MAJOR_MIN}, which @solana/kit needs")
    cache = getattr(pytestconfig, "cache", None)  # Missing when pytest runs with `-p no:cacheprovider`.
    base = cache.mkdir("clients") if cache is not None else tmp_path_factory.mktemp("clients")
    wanted = (_HERE / "package.json").read_bytes()
    folder = base / hashlib.sha256(wanted).hexdigest()[:16]
    if not (folder / "installed").exists():
        _install(npm, folder, wanted)
    shutil.copy(_HERE / "kit_transfer.mjs", folder)
    return folder


def _install(npm: str, folder: Path, package: bytes) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_bytes(package)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the npm registry did not answer within {_INSTALL_SECONDS} s")
    if done.returncode != 0 and any(word in done.stderr for word in _OUT_OF_REACH):
        pytest.skip(f"the npm registry is out of reach: {done.stderr.strip().splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    (folder / "installed").touch()


def run_transfer(folder: Path, product: Product, url: str, api_key: str) -> dict[str, object]:
    settings = {
        "RPC_URL": url,
        "RPC_API_KEY": api_key,
        "SECRET_KEY": str(product.ready["secret_key"]),
        "LAMPORTS": str(LAMPORTS),
    }
    done = subprocess.run(
        ["node", "kit_transfer.mjs"],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("key_in", ["header", "url"])
def test_transfer(product: Product, kit_folder: Path, key_in: str) -> None:
    """Blockhash, sign, send, status, balance; the key goes where the client can put it."""
    before = product.account()["total_consumed_credits"]
    url = product.http_url if key_in == "header" else f"{product.http_url}/?api-key={product.api_key}"
    found = run_transfer(kit_folder, product, url, product.api_key if key_in == "header" else "")
    assert found["sent"] == found["signature"]
    assert found["status"] in ("confirmed", "finalized")
    assert found["balance"] == LAMPORTS
    # At least: blockhash 1, send 2, one status 1, balance 1.
    assert product.account()["total_consumed_credits"] - before >= 5
