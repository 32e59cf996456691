"""Offered products: flags and reasons follow the catalog, and nothing is listed both as offered and as not."""

import pytest

from actors.methods import prices
from actors.methods.catalog import METHODS
from actors.methods.prices import Availability
from actors.status import products
from actors.status.products import Doors

OFFERED = (Availability.NODE, Availability.COMPOSED)


def test_flags_follow_the_catalog_and_the_doors() -> None:
    """When a method is built, its flag becomes true by itself."""
    assert products.services(Doors())["send"] is METHODS["sendTransaction"].callable
    assert products.services(Doors())["heavy_indexed_rpc"] is (
        METHODS["getAssetsByOwner"].callable and METHODS["getTransactionHistory"].callable
    )
    assert products.services(Doors(websocket=True))["websocket"] is True
    assert products.services(Doors(grpc=True))["yellowstone_grpc"] is True


def test_every_flag_has_a_reason_for_being_off() -> None:
    for name in products.services(Doors()):
        assert products.service_reason(name)


@pytest.mark.parametrize("availability", [each for each in Availability if each not in OFFERED])
def test_every_way_of_not_being_offered_has_a_reason(availability: Availability) -> None:
    assert products.method_reason(availability)


def test_prices_are_whole_credits() -> None:
    """Money rule 7; threat 37: no negative and no float price."""
    for table in (products.BULK, products.RELAY, products.WEBHOOKS):
        for price in table.values():
            assert type(price.credits) is int
            assert price.credits >= 0
    for stream in prices.STREAMS.values():
        assert all(type(price) is int and price >= 0 for price in stream.values())
