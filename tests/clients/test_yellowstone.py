"""@triton-one/yellowstone-grpc, unmodified, newest and 4.x, and Python's grpc, through the gateway, plain and over TLS.

The same flows as straight at a devnode: what a client is told is held against the same expectations.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from solders.keypair import Keypair
from solders.signature import Signature

from bench.product import Product
from tests.clients.test_readme import example
from tests.devnode.clients import test_yellowstone as straight
from tests.npm import Npm
from tests.stream_checks.yellowstone_soak import Soak


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("package", straight.PACKAGES)
def test_the_node_client_gets_what_it_asked_for_and_nothing_else(
    product: Product, npm: Npm, package: str, is_tls: bool
) -> None:
    """One payment to the wallet that it asked about, between payments to others; calls, replay and errors as well. TLS:
    through the edge, with the certificate that the run has made, of which the client is told as of any authority."""
    node = SimpleNamespace(url=product.ready["node_url"])
    mine = Keypair()
    ready = product.ready
    url = f"https://{ready['grpc_tls_target']}" if is_tls else f"http://{ready['grpc_target']}"
    roots = {straight.ROOTS[package]: str(ready["tls_ca_file"])} if is_tls else {}
    found = straight.run(npm, node, package, url, mine, TOKEN=product.api_key, **roots)  # type: ignore[arg-type]
    updates, payment = found["updates"], bytes(Signature.from_string(found["payment"])).hex()
    slot = str(found["transaction"]["slot"])
    (account,) = straight.of_kind(updates, "account")
    assert (account["slot"], account["pubkey"]) == (slot, bytes(mine.pubkey()).hex())
    (transaction,) = straight.of_kind(updates, "transaction")
    assert (transaction["slot"], transaction["signature"]) == (slot, payment)
    assert [one["id"] for one in straight.of_kind(updates, "pong")] == [42]
    straight.check_blocks_and_slots(updates, slot, payment, mine)
    straight.check_json(transaction["json"], found["transaction"])
    straight.check_replay(found["again"], slot, payment, package)
    straight.check_errors(found["errors"], package)
    straight.check_calls(found["calls"])


def test_the_printed_client_says_why_its_key_is_refused(product: Product, npm: Npm, tmp_path: Path) -> None:
    """5 and newer throw at subscribe() with a text of their own; the page prints the cause, which says what to do."""
    code = example("grpc-client").replace("@triton-one/yellowstone-grpc", straight.PACKAGES[1])
    code = re.sub(r", SubscribeUpdate|: SubscribeUpdate|: Error\b(?! })| as Error & \{ cause\?: Error \}", "", code)
    code = code.replace("http://127.0.0.1:8082", f"http://{product.ready['grpc_target']}").replace("<API key>", "wrong")
    script = tmp_path / "printed_stream.mjs"
    script.write_text(re.sub(r"console\.error\((.*)\);", r"console.log(JSON.stringify(\1));", code), encoding="utf-8")
    assert "send an API key or a session token" in npm.run(script, {})


def test_python_gets_the_same_as_from_the_node_through_faults(product: Product) -> None:
    """None missing, none extra, while the node's connections are cut again and again: plain, over TLS, and of a client
    that leaves and comes back with from_slot; the long run is `python -m bench grpc-soak --seconds 600`."""
    found = Soak(product, seed=7, seconds=12, cut_every_seconds=3).run()
    assert {told.client for told in found} == {"plain", "tls", "returning"}
    for told in found:
        assert told.missing == told.extra == told.repeated == 0, told
        assert told.updates > 200 and told.cuts >= 2, told
        assert told.streams > 4 if told.client == "returning" else told.streams == 1, told
