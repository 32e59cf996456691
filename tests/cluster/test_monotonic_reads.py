"""X-Consistency on a real cluster: the view of an account is one at all replicas, and has its own sends.

Rule: decisions, "Monotonic reads". The node is the product's own chain, which is told to show itself late.
"""

import base64
import contextlib
from collections.abc import Iterator

from bench.product import Product
from tests.cluster.test_admission import replica_urls
from tests.cluster.test_faults import eventually
from tests.cluster.test_sends import Sender
from tests.customers import Answer, request, rpc_body

_LAG_SLOTS = 30  # More than a monotonic read waits for.
_SECONDS = 20.0
_CONFIRMED = {"commitment": "confirmed"}


@contextlib.contextmanager
def late_node(sender: Sender) -> Iterator[None]:
    sender.admin("faults", {"node": {"lag_slots": _LAG_SLOTS}})
    try:
        yield
    finally:
        sender.admin("faults", {"node": None})


def test_no_replica_steps_back_and_an_own_send_is_seen(product: Product) -> None:
    """While the node shows itself 30 slots late, every replica refuses what would be older than the account has read,
    for free; without the header the same reads do step back. Afterwards the account reads on from where it was."""
    sender, urls = Sender(product), replica_urls(product)
    payer = str(sender.keypair.pubkey())

    def read(url: str, *, monotonic: bool = True) -> Answer:
        more = {"X-Consistency": "monotonic"} if monotonic else {}
        return request(f"{url}/", sender.customer.key_headers | more, rpc_body("getBalance", payer, _CONFIRMED))

    before = read(urls[0]).body["result"]["value"]
    transaction = base64.b64encode(bytes(sender.payment())).decode()
    sent = sender.customer.call("sendAndConfirm", transaction, {"encoding": "base64"}).body["result"]
    assert sent["status"] == "confirmed"
    floor = sent["slot"]
    for url in urls * 2:
        answer = read(url).body["result"]
        assert answer["context"]["slot"] >= floor and answer["value"] < before
        floor = answer["context"]["slot"]
    with late_node(sender):
        assert eventually(lambda: read(urls[0], monotonic=False).body["result"]["context"]["slot"] < floor, _SECONDS)
        for url in urls:  # Until then an answer of the cache may still be the newest.
            assert eventually(lambda url=url: read(url).status == 503, _SECONDS)  # type: ignore[misc]
        debits = len(sender.debits())
        refused = read(urls[-1])
        assert refused.status == 503 and f"no node has reached slot {floor}" in str(refused.body)
        assert len(sender.debits()) == debits
    assert eventually(lambda: read(urls[-1]).status == 200, _SECONDS)
    assert read(urls[0]).body["result"]["context"]["slot"] >= floor
