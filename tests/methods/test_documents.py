"""What is told about methods is what the service does: no method without words, no example that is refused."""

import orjson
import pytest
from jsonschema import Draft202012Validator

from actors.gateway.calls.admission import PLANS, AdmittedCall, admit, plans
from actors.gateway.calls.jsonrpc import Call, parse
from actors.methods import catalog
from actors.methods import rules as params
from actors.methods.catalog import DOCUMENTS
from actors.methods.forms import params_schema
from actors.methods.prices import MethodClass
from actors.pricing_config import PricingConfig

_UNCALLABLE = (MethodClass.DENIED, MethodClass.ARCHIVE_HISTORY)


def test_every_method_of_the_service_is_documented_and_no_other() -> None:
    """The catalog decides what exists; the documents only describe it."""
    assert set(DOCUMENTS) == {row.name for row in catalog.METHODS.values() if row.method_class not in _UNCALLABLE}


@pytest.mark.parametrize("method", [name for name, document in DOCUMENTS.items() if document.example is not None])
def test_examples_are_admitted_by_the_rules_and_by_the_schema(method: str) -> None:
    """An agent that copies the example, or follows the schema, is not refused for its parameters."""
    document = DOCUMENTS[method]
    schema = params_schema(document)
    Draft202012Validator.check_schema(schema)
    assert document.example is not None
    Draft202012Validator(schema).validate(list(document.example))
    call = parse(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(document.example)}))
    assert isinstance(call, Call)
    if method in PLANS:
        admitted = admit(call, plans(PricingConfig()))
        assert isinstance(admitted, AdmittedCall), admitted


@pytest.mark.parametrize("method", sorted(DOCUMENTS))
def test_schema_and_rules_agree_on_how_many_parameters_there_are(method: str) -> None:
    """One more than the schema names is refused by the rule too, and one less than it needs as well."""
    document, rule = DOCUMENTS[method], params.RULES.get(method)
    if method not in PLANS:
        pytest.skip("not callable in this build")
    assert rule is not None
    for arguments in ([None] * (len(document.parameters) + 1), [None] * 12):
        with pytest.raises(params.InvalidError):
            rule(arguments, orjson.dumps(arguments))
    if document.required:
        short = list(document.example or (None,))[: document.required - 1]
        with pytest.raises(params.InvalidError):
            rule(short, orjson.dumps(short))
