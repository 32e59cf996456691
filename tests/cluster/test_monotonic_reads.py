"""X-Consistency on a real cluster: the view of an account is one at all replicas, and has its own sends.

Rule: decisions, "Monotonic reads". Nodes that lag are in tests/gateway/calls/test_consistency.py and in
`python -m bench lagging-nodes`: the suite's product has one node, which never shows an older slot.
"""

import base64

from bench.product import Product
from tests.cluster.test_admission import replica_urls
from tests.cluster.test_sends import Sender
from tests.customers import Answer, request, rpc_body

_CONFIRMED = {"commitment": "confirmed"}


def test_every_replica_sees_an_own_send_and_refuses_another_word(product: Product) -> None:
    """The racer tells the owner of the account the slot of the send, and the owner tells it every replica. Another word
    is 400 at the front and at each replica, and costs nothing."""
    sender, urls = Sender(product), replica_urls(product)
    payer = str(sender.keypair.pubkey())

    def read(url: str, word: str) -> Answer:
        return request(
            f"{url}/", sender.customer.key_headers | {"X-Consistency": word}, rpc_body("getBalance", payer, _CONFIRMED)
        )

    before = read(product.http_url, "monotonic").body["result"]["value"]
    transaction = base64.b64encode(bytes(sender.payment())).decode()
    sent = sender.customer.call("sendAndConfirm", transaction, {"encoding": "base64"}).body["result"]
    assert sent["status"] == "confirmed"
    floor = sent["slot"]
    for url in (product.http_url, *urls, *urls):
        answer = read(url, "monotonic").body["result"]
        assert answer["context"]["slot"] >= floor and answer["value"] < before
        floor = answer["context"]["slot"]
    debits = len(sender.debits())
    for url in (product.http_url, *urls):
        refused = read(url, "strong")
        assert (refused.status, refused.body["error"]["code"]) == (400, "INVALID_REQUEST")
    assert len(sender.debits()) == debits
