"""The OpenAPI document is valid, and says of each path what this service does."""

from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from actors.documents import openapi
from actors.documents.operation import Access
from actors.documents.operations import operations_of

from .service import URL, served, the_offer

DOCUMENT = openapi.document(the_offer())


def test_it_is_a_valid_document_of_3_1() -> None:
    """By the validator of the OpenAPI community."""
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    assert DOCUMENT["openapi"].startswith("3.1") and DOCUMENT["servers"] == [{"url": URL}]


def test_it_has_the_paths_that_are_served_and_no_other() -> None:
    """GET /capabilities lists the same."""
    found = {
        f"{verb.upper()} {path}" for path, verbs in DOCUMENT["paths"].items() for verb in verbs if verb != "parameters"
    }
    assert found == set(served())


def test_operation_ids_differ() -> None:
    """Generators of clients name functions by them."""
    ids = [
        one["operationId"]
        for verbs in DOCUMENT["paths"].values()
        for name, one in verbs.items()
        if name != "parameters"
    ]
    assert len(set(ids)) == len(ids)


def test_a_new_webhook_leads_to_every_operation_on_it() -> None:
    """Clients and stateful tests follow the links of a creation with the id of its answer."""
    links = DOCUMENT["paths"]["/webhooks"]["post"]["responses"]["201"]["links"]
    on_it = [verbs for path, verbs in DOCUMENT["paths"].items() if path.startswith("/webhooks/{id}")]
    wanted = {one["operationId"] for verbs in on_it for name, one in verbs.items() if name != "parameters"}
    assert {link["operationId"] for link in links.values()} == wanted
    assert all(link["parameters"] == {"id": "$response.body#/id"} for link in links.values())


@pytest.mark.parametrize("row", operations_of(served()), ids=lambda row: row.endpoint)
def test_without_a_credential_the_answer_is_402_and_not_401(row: Any) -> None:
    """Decisions, "402 without credentials": documented, and on public paths absent."""
    operation = DOCUMENT["paths"][row.path][row.method.lower()]
    assert ("402" in operation["responses"]) is (row.access is not Access.PUBLIC or row.path == "/auth/verify")
    assert (operation["security"] == []) is (row.access is Access.PUBLIC)


def test_every_schema_is_used() -> None:
    """A shape that no row names is left over."""
    text = str(DOCUMENT["paths"]) + str(DOCUMENT["components"]["schemas"])
    assert [name for name in DOCUMENT["components"]["schemas"] if f"schemas/{name}'" not in text] == []
