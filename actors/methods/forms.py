"""The forms of method parameters: of each, the check that refuses a wrong value and the JSON schema that documents it.

Implements: the forms that Agave's RPC decodes (positional parameters, optional configuration objects).
Pure. A schema admits every value that its check admits, and may admit more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.addresses import WRAPPED_SOL_MINT
from actors.methods import values
from actors.methods.values import Check

Schema = Mapping[str, Any]


class Form(NamedTuple):
    check: Check
    schema: Schema


@dataclass(frozen=True, slots=True)
class Parameter:
    """One positional parameter. name: for documents and refusals, as parameters travel in an array."""

    name: str
    form: Form
    is_required: bool = False

    @property
    def schema(self) -> Schema:
        return self.form.schema


@dataclass(frozen=True, slots=True)
class MethodDocument:
    """summary, when: what the method does, and when to use it, a sentence each. example: parameters that pass the
    method's checks; None: they would need a signature. sketch: then, JSON of parameters with words in place of what is
    signed. result: the schema of what it answers."""

    summary: str
    parameters: tuple[Parameter, ...] = ()
    example: tuple[Any, ...] | None = ()
    when: str = ""
    result: Schema = field(default_factory=dict)
    sketch: str = ""

    @property
    def required(self) -> int:
        """Return the number of parameters that must be given."""
        return sum(parameter.is_required for parameter in self.parameters)


def documented(**schema: Any) -> Form:
    """Return a form that only documents tell: the method's own rule checks the value."""
    return Form(lambda value, name: None, schema)


EXAMPLE_KEY = WRAPPED_SOL_MINT
EXAMPLE_SIGNATURE = "1" * 64  # The base58 text of 64 zero bytes.
VERSION_KEY = "maxSupportedTransactionVersion"
STRING = documented(type="string")
BOOLEAN = Form(values.boolean, {"type": "boolean"})
UNSIGNED = Form(values.u64, {"type": "integer", "minimum": 0})


def _base58(check: Check, noun: str, shortest: int, longest: int) -> Form:
    text = {"type": "string", "description": f"{noun} in base58", "minLength": shortest, "maxLength": longest}
    return Form(check, text)


PUBKEY = _base58(values.pubkey, "public key", 32, 44)
SIGNATURE = _base58(values.signature, "signature", 64, 88)
BLOCKHASH = _base58(values.blockhash, "blockhash", 32, 44)
COMMITMENT = Form(values.commitment, {"type": "string", "description": "processed, confirmed or finalized"})
FROM_CONFIRMED = Form(values.commitment_from_confirmed, {"type": "string", "description": "confirmed or finalized"})


def up_to(largest: int, smallest: int = 0, **more: Any) -> Form:
    """more: further keywords of the schema."""
    schema = {"type": "integer", "minimum": smallest, "maximum": largest, **more}
    return Form(values.up_to(largest, smallest), schema)


def choice(*choices: str) -> Form:
    return Form(values.one_of(*choices), {"type": "string", "enum": list(choices)})


def list_of(item: Form, length_max: int) -> Form:
    schema = {"type": "array", "items": dict(item.schema), "maxItems": length_max}
    return Form(values.list_of(item.check, length_max), schema)


def nullable(schema: Schema) -> dict[str, Any]:
    """Return the schema that admits null too. One without a type admits it already."""
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    if "type" not in schema:
        return dict(schema)
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*types, "null"]}


def checks_of(fields: Mapping[str, Form]) -> dict[str, Check]:
    return {name: form.check for name, form in fields.items()}


def an_object(description: str, required: tuple[str, ...] = (), **fields: Form) -> Form:
    """An object with these fields, each of which may also be null, and others that nodes ignore."""
    schemas = {name: dict(form.schema) if name in required else nullable(form.schema) for name, form in fields.items()}
    schema: dict[str, Any] = {"type": "object", "description": description, "properties": schemas}
    if required:
        schema["required"] = list(required)
    return Form(values.an_object(checks_of(fields), required), schema)


def config(**fields: Form) -> Parameter:
    return Parameter("configuration", an_object("options of the node", (), **fields))


def needed(name: str, form: Form) -> Parameter:
    return Parameter(name, form, is_required=True)


# Configuration objects, by the names that Agave has for their fields.
CONTEXT = {"commitment": COMMITMENT, "minContextSlot": UNSIGNED}
LATER = {"commitment": FROM_CONFIRMED, "minContextSlot": UNSIGNED}
_DATA_SLICE = an_object("part of the data", ("offset", "length"), offset=UNSIGNED, length=UNSIGNED)
_ENCODING = choice("base64", "base58", "base64+zstd", "jsonParsed", "binary")
ACCOUNT = {**CONTEXT, "encoding": _ENCODING, "dataSlice": _DATA_SLICE}
VERSIONED = {VERSION_KEY: up_to(255, description="highest transaction version")}
TRANSACTIONS = {**LATER, "encoding": choice("json", "jsonParsed", "base64", "base58", "binary"), **VERSIONED}
TRANSACTION_ENCODING = choice("base58", "base64")
KEY = needed("pubkey", PUBKEY)
SLOT = needed("slot", UNSIGNED)
SIGNED = needed("transaction", documented(type="string", description="signed transaction in base64 or base58"))
URGENCY = choice("low", "medium", "high", "critical")


def params_schema(document: MethodDocument) -> dict[str, Any]:
    """Return the JSON schema of the array of parameters; a parameter that need not be given may be null."""
    parameters = document.parameters
    schemas = [_titled(parameter) for parameter in parameters]
    schema: dict[str, Any] = {"type": "array", "maxItems": len(parameters)}
    if schemas:
        schema |= {"prefixItems": schemas, "minItems": document.required}
    return schema


def _titled(parameter: Parameter) -> dict[str, Any]:
    schema = parameter.schema if parameter.is_required else nullable(parameter.schema)
    return {"title": parameter.name, **schema}
