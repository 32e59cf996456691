"""The methods that clients/typescript knows are those of today's OpenRPC document."""

import json

from actors.documents import openrpc
from actors.release import RELEASE

from . import typescript_methods
from .service import the_offer


def test_the_file_is_what_the_document_of_today_makes() -> None:
    """`python -m tests.documents.typescript_methods` writes it anew."""
    made = typescript_methods.text(openrpc.document(the_offer()))
    assert typescript_methods.PLACE.read_text(encoding="utf-8") == made


def test_every_method_is_there_with_its_parameters_in_order() -> None:
    document = openrpc.document(the_offer())
    made = typescript_methods.text(document)
    assert len(document["methods"]) > 50
    for method in document["methods"]:
        _, _, rest = made.partition(
            f"\n  {method['name']}: [" if "." not in method["name"] else '\n  "rpc.discover": ['
        )
        at = -1
        for parameter in method["params"]:
            label = f"{parameter['name']}{'' if parameter['required'] else '?'}: "
            assert rest.find(label) > at, (method["name"], label)
            at = rest.find(label)


def test_schemas_become_types() -> None:
    """Each form that a schema takes, and those that it may take."""
    kind = typescript_methods.kind
    assert kind({}) == "unknown" and kind({"type": ["integer", "null"]}) == "Whole | null"
    assert kind({"enum": ["a", None]}) == '"a" | null'
    assert kind({"type": "array", "items": {"type": ["string", "null"]}}) == "readonly (string | null)[]"
    assert kind({"anyOf": [{"type": "string"}, {"type": "object"}]}) == "string | Readonly<Record<string, unknown>>"
    fields = {"a": {"type": "number", "description": "ends */ here"}, "b": {"type": "boolean"}}
    made = kind({"type": "object", "properties": fields, "required": ["a"]})
    assert made == "{\n  /** ends * / here */\n  a: number;\n  b?: boolean;\n}"


def test_the_client_has_the_release_whose_methods_it_knows() -> None:
    package = typescript_methods.PLACE.parents[1] / "package.json"
    assert json.loads(package.read_text(encoding="utf-8"))["version"] == RELEASE
