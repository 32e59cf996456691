"""One run on a product that is ready: a customer of its own, somebody on its chain, all rows, and the ledger's sum."""

from solders.keypair import Keypair

from bench.product import Product
from tests.customers import Customer

from . import people, table, trades
from .both import Both

_CREDITS = 10_000_000


def rows_of(product: Product) -> list[table.Row]:
    """Raises AssertionError when what was charged in all is not what the account's history says."""
    customer = Customer(product)
    customer.grant(_CREDITS)
    customer.limits(10_000, 100)
    node_url = str(product.ready["node_url"])
    both = Both(product.http_url, customer.api_key, node_url)
    try:
        coin = trades.settle(both, node_url, Keypair.from_seed(bytes(customer.wallet.key)))
        rows = table.run(both, *people.settle(both, node_url), coin)
        assert both.history_sum() == both.charged, (both.history_sum(), both.charged)
        assert customer.balance == _CREDITS - both.charged
    finally:
        both.close()
    return rows
