"""Forms of bodies in words, and examples of bodies that fit their forms."""

import jsonschema
import pytest

from actors.documents import forms, openapi, reference
from actors.documents.operations import OPERATIONS
from actors.documents.schemas import INTEGER, STRING, body, list_of, or_null, record, ref

from .service import the_offer

DOCUMENT = openapi.document(the_offer())
WITH_EXAMPLE = [row for row in OPERATIONS.values() if row.example is not None]


def test_fields_are_listed_with_those_inside_them() -> None:
    """README: a table is for reading; a field of another form of the body is left out."""
    schema = body({"other": {"type": "null"}, "note": or_null(STRING)}, items=list_of(record(size=INTEGER), maxItems=5))
    (table,) = forms.tables(schema)
    assert table.rows == (
        ("items", True, "list of up to 5: object"),
        ("items[].size", True, "integer"),
        ("note", False, "string; or null"),
    )
    assert [table.caption for table in forms.tables({"anyOf": [ref("Webhook"), ref("RotatedSecret")]})] == [
        "Webhook",
        "RotatedSecret",
    ]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}, "integer 1 to 500, 50 by default"),
        ({"type": "integer", "minimum": 0, "maximum": (1 << 64) - 1}, "integer"),
        ({"type": "string", "pattern": "^x$", "description": "a text"}, "string, a text"),
        ({"enum": ["a", "b"]}, '"a" or "b"'),
        ({"const": True}, "true"),
        ({"type": ["string", "null"]}, "string or null"),
        ({}, "any value"),
    ],
)
def test_a_value_is_told_without_its_pattern(schema: dict[str, object], words: str) -> None:
    """Patterns are for machines, which have the OpenAPI document."""
    assert forms.in_words(schema) == words


@pytest.mark.parametrize("row", WITH_EXAMPLE, ids=lambda row: row.endpoint)
def test_examples_fit_their_forms(row: openapi.Operation) -> None:
    """An example that is refused would teach the wrong thing."""
    schema = {"components": DOCUMENT["components"], "allOf": [row.request]}
    jsonschema.Draft202012Validator(schema).validate(row.example)


def test_the_page_has_tables_and_no_schemas() -> None:
    """A person reads fields; every body has a table, and every path its answer."""
    page = reference.page(the_offer())
    assert "additionalProperties" not in page and "[1-9A-HJ-NP-Za-km-z]" not in page and "minItems" not in page
    assert page.count("<h4>Answer</h4>") == len(the_offer().served)
    assert "filter_type account or program" in page and "<code>last_delivery.http_status</code>" in page
