"""The shapes: references that lead somewhere, and the constants of the error table."""

import re

from actors.documents.receipt_schemas import SCHEMAS
from actors.documents.schemas import body, record
from actors.errors import Err


def test_references_lead_to_schemas() -> None:
    """A reference to nothing makes the document useless to generators."""
    assert set(re.findall(r"schemas/(\w+)'", str(dict(SCHEMAS)))) <= set(SCHEMAS)


def test_every_error_can_be_told() -> None:
    """Both forms of an error name each constant of the table."""
    for name in ("HttpError", "GatewayRpcError"):
        assert all(f"'{err.name}'" in str(SCHEMAS[name]) for err in Err)


def test_a_request_takes_no_other_fields() -> None:
    """An answer may grow; a request with a field that is not known is refused."""
    assert body({"b": {}}, a={})["additionalProperties"] is False and "additionalProperties" not in record(a={})
    assert body({"b": {}}, a={})["required"] == ["a"]
