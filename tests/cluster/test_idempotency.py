"""Idempotency-Key on a real cluster: the death of the replica that runs the call."""

import contextlib
import json
import os
import signal
import threading
import urllib.request
from collections.abc import Iterator

import asyncpg
import pytest

from actors.accounts.audit_database import database
from bench.product import Product
from tests.cluster.test_admission import replica_urls
from tests.cluster.test_faults import eventually
from tests.cluster.test_left_batches import is_free, process_at
from tests.cluster.test_sends import Sender, signature, text
from tests.customers import Answer, request, rpc_body

pytestmark = pytest.mark.kills

_ANSWERED_SECONDS = 90.0
_AT_ONCE_SECONDS = 10.0  # In which the node gives no answer, by fault.
_KEY = {"Idempotency-Key": "a-key-of-the-test"}


@contextlib.contextmanager
def silent_node(product: Product) -> Iterator[None]:
    """A node that does not answer sends."""
    url, headers = f"{product.ready['node_url']}/admin/faults", {"Content-Type": "application/json"}
    faults = json.dumps({"calls": {"sendTransaction": {"hang_share": 1}}}).encode()
    assert request(url, headers, faults).status == 200
    try:
        yield
    finally:
        with urllib.request.urlopen(urllib.request.Request(url, method="DELETE")) as cleared:
            assert cleared.status == 200


def ask(sender: Sender, url: str, body: bytes) -> Answer:
    return request(url + "/", sender.customer.key_headers | _KEY, body)


async def end_leases(product: Product) -> None:
    """Move the end of every lease, a minute away, to now."""
    async with database(None, product.data_dir) as url, contextlib.AsyncExitStack() as stack:
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        await connection.execute("UPDATE idempotency_keys SET lease_until_ms = 0 WHERE NOT answered")


async def test_a_killed_replica_leaves_one_charge_and_one_answer(product: Product) -> None:
    """The call is under way at one replica when it dies. The others say so until its lease ends; then the call is made
    again, and everybody gets that answer."""
    sender, (doomed, *_) = Sender(product), replica_urls(product)
    payment = sender.payment()
    body = rpc_body("sendTransaction", text(payment), {"encoding": "base64", "skipPreflight": True})
    with silent_node(product):
        lost = threading.Thread(target=_ask_in_vain, args=(sender, doomed, body))
        lost.start()
        assert eventually(lambda: not is_free(sender.customer), _AT_ONCE_SECONDS)
        os.kill(process_at(product, doomed), signal.SIGKILL)
    lost.join()
    assert eventually(lambda: _is_in_use(ask(sender, product.http_url, body)), _AT_ONCE_SECONDS)
    await end_leases(product)
    answers: list[Answer] = []

    def answered() -> bool:
        found = [ask(sender, url, body) for url in (product.http_url, product.http_url)]
        assert all(each.status in (200, 409, 502, 503) for each in found), found
        answers.extend(each for each in found if each.status == 200)
        return len(answers) >= 2

    assert eventually(answered, _ANSWERED_SECONDS)
    assert {each.body["result"] for each in answers} == {signature(payment)}
    assert sender.debits() == [2]


def _ask_in_vain(sender: Sender, url: str, body: bytes) -> None:
    with contextlib.suppress(OSError):
        ask(sender, url, body)


def _is_in_use(answer: Answer) -> bool:
    return answer.status == 409 and answer.body["error"]["code"] == "IDEMPOTENCY_KEY_IN_USE"
