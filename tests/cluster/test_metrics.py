"""GET /metrics of a real cluster: the figures of all processes agree with the customer's ledger."""

import time
import urllib.request
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from bench.product import Product
from tests.customers import Customer, Wallet, request, rpc_body

_FRESH_SECONDS_MAX = 120  # A process that a test killed leaves the page after thirty seconds.
_LOOK_SECONDS = 0.5  # Processes report every two seconds.


class Page:
    """The page as it is once every process has reported after this moment. A process that is gone leaves it first."""

    def __init__(self, product: Product) -> None:
        asked_at, self.text = time.time(), ""
        deadline = time.monotonic() + _FRESH_SECONDS_MAX
        while not self._is_fresh(asked_at):
            assert time.monotonic() < deadline, self.text
            time.sleep(_LOOK_SECONDS)
            with urllib.request.urlopen(product.ready["metrics_url"], timeout=60) as answer:
                self.text = answer.read().decode()

    def _is_fresh(self, asked_at: float) -> bool:
        reported = [value for name, _, value in self._samples() if name == "reported_unix_seconds"]
        return bool(reported) and min(reported) > asked_at

    def _samples(self) -> list[tuple[str, dict[str, str], float]]:
        families = text_string_to_metric_families(self.text)
        samples = [sample for family in families for sample in family.samples]
        return [(sample.name.removeprefix("ledger_gateway_"), sample.labels, sample.value) for sample in samples]

    def sums(self, name: str, label: str) -> Counter[str]:
        """A figure by one of its labels, added up over processes."""
        found: Counter[str] = Counter()
        for figure, labels, value in self._samples():
            if figure == name:
                found[labels[label]] += int(value)
        return found

    def figures(self) -> Counter[str]:
        """Every figure by its name alone, added up over processes and labels."""
        found: Counter[str] = Counter()
        for name, _, value in self._samples():
            found[name] += int(value)
        return found

    def processes(self) -> set[str]:
        return {labels["process"].partition("-")[0] for name, labels, _ in self._samples() if "process" in labels}


def test_the_figures_of_all_processes_agree_with_what_was_called_and_charged(product: Product) -> None:
    """Threats 13 and 58: calls, refusals and credits are counted in every process and add up to the ledger's
    debits; no label is a caller's; the page is on a private port and not on the public one."""
    customer = Customer(product)
    customer.grant(1_000)
    before = Page(product)
    for _ in range(6):
        assert customer.call("getSlot").status == 200
    batch = b"[" + b",".join((rpc_body("getVersion"), rpc_body("getVersion"), rpc_body("invented_here"))) + b"]"
    assert request(f"{product.http_url}/", customer.key_headers, batch).status == 200
    wallets = b'{"addresses":["%b","%b"]}' % (Wallet().pubkey.encode(), Wallet().pubkey.encode())
    assert request(f"{product.http_url}/bulk/getBalances", customer.key_headers, wallets).status == 200
    assert customer.call("invented_by_a_caller").body["error"]["code"] == -32601
    page = Page(product)

    made = {"getSlot": 6, "getVersion": 2, "bulk/getBalances": 1}
    assert page.sums("calls_total", "method") - before.sums("calls_total", "method") == made
    refused = page.sums("refusals_total", "error") - before.sums("refusals_total", "error")
    assert refused == {"METHOD_NOT_FOUND": 2}
    debits = -sum(entry["amount"] for entry in customer.entries() if entry["type"] == "debit")
    charged = page.sums("credits_charged_total", "outcome") - before.sums("credits_charged_total", "outcome")
    assert debits == 10
    assert charged == {"answered": debits}
    moved = page.sums("ledger_credits_total", "type") - before.sums("ledger_credits_total", "type")
    assert moved == {"debit": debits}
    assert {"gateway", "account", "deposit"} <= page.processes()
    assert not any(word in page.text for word in ("invented", customer.api_key, customer.pubkey))
    assert request(f"{product.http_url}/metrics", {}).status == 404
