"""Schemas of results: valid, open to what nodes add, and closed to what no node has answered.

Real answers are held against them in tests/gateway/doors/mcp/test_output_schemas.py and tests/conformance.
"""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from actors.methods import results
from actors.methods.catalog import DOCUMENTS


@pytest.mark.parametrize("method", sorted(DOCUMENTS))
def test_every_method_says_what_it_answers_and_when_to_use_it(method: str) -> None:
    """No schema admits just anything, and no form of an answer is closed to fields that a later node adds."""
    document = DOCUMENTS[method]
    Draft202012Validator.check_schema(dict(document.result))
    assert "type" in document.result and '"additionalProperties": False' not in repr(document.result)
    assert document.when.startswith("Use it ") and document.when.endswith(".")
    assert (document.example is None) == bool(document.sketch)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        (results.at_slot(results.INTEGER), {"context": {"slot": 1, "apiVersion": "4.0"}, "value": 5}, True),
        (results.at_slot(results.INTEGER), {"context": {}, "value": 5}, False),
        (results.at_slot(results.INTEGER), {"context": {"slot": 1}, "value": None}, False),
        (results.ACCOUNT, {"context": {"slot": 1}, "value": None}, True),
        (results.or_null(results.array(results.TEXT)), None, True),
        (results.or_null(results.array(results.TEXT)), [1], False),
        (results.record({"b": results.INTEGER}, a=results.TEXT), {"a": "", "c": 1}, True),
        (results.record({"b": results.INTEGER}, a=results.TEXT), {"a": "", "b": ""}, False),
        (results.record({"b": results.INTEGER}, a=results.TEXT), {"b": 1}, False),
    ],
)
def test_forms_admit_what_they_say(schema: Any, value: Any, fits: bool) -> None:
    assert Draft202012Validator(dict(schema)).is_valid(value) is fits
