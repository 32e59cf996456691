"""Prices in words, as the documents have them."""

from actors.documents.offer import StreamOffer, offer
from actors.pricing_config import PricingConfig


def test_each_kind_of_price_is_told() -> None:
    """Fixed, free, by outcome, by percentage: the prices are the operator's."""
    pricing = PricingConfig(landing_credits=70, base_credits=3, build_credits=9, trade_bps=10)
    served = ["GET /health", "GET /health"]
    made = offer("https://gateway.test/", served, pricing, relay=False, streams=StreamOffer(), deposit={})
    prices = {method.row.name: (method.price, method.credits_max) for method in made.methods}
    assert (made.public_url, made.served) == ("https://gateway.test", ("GET /health",))
    assert prices["getSlot"] == ("1 credit", 1) and prices["getBlock"] == ("25 credits", 25)
    assert prices["getSendStatus"] == ("free", 0)
    assert prices["sendAndConfirm"] == ("70 credits if it lands, else 3", 70)
    assert prices["executeSnipe"] == ("9 credits and 10 basis points of the trade's SOL", None)
    assert "sendBundle" not in prices and "requestAirdrop" not in prices
