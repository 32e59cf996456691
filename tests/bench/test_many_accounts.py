"""Keys of many accounts on one product: each its own, and each with credits."""

from bench import many_accounts
from bench.product import Product


def test_each_account_has_a_key_and_credits(product: Product) -> None:
    keys = many_accounts.opened(product, 2, 1_234)
    assert len(set(keys)) == 2
    assert [product.account(key)["balance"] for key in keys] == [1_234, 1_234]
