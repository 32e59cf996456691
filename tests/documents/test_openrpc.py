"""The OpenRPC document is valid, and has the methods of the catalog that can be called, with their prices."""

import json
from pathlib import Path

import jsonschema
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT7

from actors.documents import openrpc
from actors.documents.offer import StreamOffer, offer
from actors.gateway.calls.admission import plans
from actors.methods.catalog import METHODS
from actors.methods.prices import Availability
from actors.pricing_config import PricingConfig

from .service import the_offer

META_SCHEMA = jsonschema.Draft7Validator.META_SCHEMA
META = json.loads((Path(__file__).parent / "openrpc_meta_schema.json").read_text(encoding="utf-8"))
DOCUMENT = openrpc.document(the_offer())
BY_NAME = {method["name"]: method for method in DOCUMENT["methods"]}


def test_it_fits_the_meta_schema_of_openrpc() -> None:
    """The schema is the one of the npm package @open-rpc/meta-schema; its word for a JSON schema is draft 7."""
    word = {"$ref": "http://json-schema.org/draft-07/schema#"}
    names = {"JSONSchemaObject": {"properties": {"$ref": {"type": "string"}}}}
    draft7 = DRAFT7.create_resource({"allOf": [word], "definitions": names})
    known = [(f"https://meta.json-schema.tools{end}", draft7) for end in ("", "/")]
    known.append(("http://json-schema.org/draft-07/schema", DRAFT7.create_resource(META_SCHEMA)))
    registry: Registry = Registry().with_resources(known)
    validator = jsonschema.Draft7Validator(META, registry=registry)
    assert [error.message for error in validator.iter_errors(DOCUMENT)] == []
    assert [*validator.iter_errors(DOCUMENT | {"methods": [{"name": 7}]})], "the schema finds no fault at all"


@pytest.mark.parametrize("relay", [True, False])
def test_it_has_the_methods_that_can_be_called_and_no_other(relay: bool) -> None:
    """The gateway's plans are the truth of it, and of the price that is held."""
    pricing = PricingConfig(landing_credits=70, build_credits=7)
    found = {
        method["name"]: method
        for method in openrpc.document(offer("x", [], pricing, relay, StreamOffer(), {}))["methods"]
    }
    priced = plans(pricing, relay=relay)
    assert set(found) == set(priced)
    for name, plan in priced.items():
        assert found[name]["x-credits-max"] == (None if plan.quoted else plan.ceiling), name
        assert found[name]["x-timeout-ms"] == plan.timeout_ms
    assert all(METHODS[name].availability is Availability.RELAY for name in set(plans(pricing)) - set(found))


def test_required_parameters_come_first() -> None:
    """Parameters travel by position: one that is needed cannot follow one that may be left out."""
    for method in DOCUMENT["methods"]:
        flags = [parameter["required"] for parameter in method["params"]]
        assert flags == sorted(flags, reverse=True), method["name"]
    assert BY_NAME["getBlock"]["params"][0]["name"] == "slot"


def test_examples_name_the_parameters_of_their_method() -> None:
    """As the meta schema does not look at that."""
    for method in DOCUMENT["methods"]:
        for example in method.get("examples", ()):
            names = [parameter["name"] for parameter in method["params"]]
            assert [value["name"] for value in example["params"]] == names[: len(example["params"])]
