"""The forms of method parameters as JSON schemas: keys, signatures, configuration objects, lists.

Implements: the forms that Agave's RPC decodes (positional parameters, optional configuration objects).
Pure data and pure functions. methods/documents.py says which method takes which parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.addresses import WRAPPED_SOL_MINT

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One positional parameter. name: for documents alone, as parameters travel in an array."""

    name: str
    schema: Schema
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class MethodDocument:
    """summary: one sentence. example: parameters that pass the method's checks; None: they would need a signature."""

    summary: str
    parameters: tuple[Parameter, ...] = ()
    example: tuple[Any, ...] | None = ()

    @property
    def required(self) -> int:
        """Return the number of parameters that must be given."""
        return sum(parameter.is_required for parameter in self.parameters)


EXAMPLE_KEY = WRAPPED_SOL_MINT
STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
UNSIGNED: Schema = {"type": "integer", "minimum": 0}
PUBKEY: Schema = {"type": "string", "description": "public key in base58", "minLength": 32, "maxLength": 44}
SIGNATURE: Schema = {"type": "string", "description": "signature in base58", "minLength": 64, "maxLength": 88}
BLOCKHASH: Schema = {"type": "string", "description": "blockhash in base58", "minLength": 32, "maxLength": 44}
COMMITMENT: Schema = {"type": "string", "description": "processed, confirmed or finalized"}
FROM_CONFIRMED: Schema = {"type": "string", "description": "confirmed or finalized"}
VERSION: Schema = {"type": "integer", "minimum": 0, "maximum": 255, "description": "highest transaction version"}


def choice(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def list_of(item: Schema, length_max: int) -> Schema:
    return {"type": "array", "items": dict(item), "maxItems": length_max}


def nullable(schema: Schema) -> dict[str, Any]:
    """Return the schema that admits null too. One without a type admits it already."""
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    if "type" not in schema:
        return dict(schema)
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*types, "null"]}


def an_object(description: str, required: tuple[str, ...] = (), **fields: Schema) -> Schema:
    """An object with these fields, each of which may also be null, and others that nodes ignore."""
    schema: dict[str, Any] = {
        "type": "object",
        "description": description,
        "properties": {name: dict(field) if name in required else nullable(field) for name, field in fields.items()},
    }
    return schema | ({"required": list(required)} if required else {})


def config(**fields: Schema) -> Parameter:
    return Parameter("configuration", an_object("options of the node", (), **fields))


def needed(name: str, schema: Schema) -> Parameter:
    return Parameter(name, schema, is_required=True)


CONTEXT: dict[str, Schema] = {"commitment": COMMITMENT, "minContextSlot": UNSIGNED}
LATER: dict[str, Schema] = {"commitment": FROM_CONFIRMED, "minContextSlot": UNSIGNED}
ENCODING = choice("base64", "base58", "base64+zstd", "jsonParsed", "binary")
DATA_SLICE = an_object("part of the data", ("offset", "length"), offset=UNSIGNED, length=UNSIGNED)
ACCOUNT: dict[str, Schema] = {**CONTEXT, "encoding": ENCODING, "dataSlice": DATA_SLICE}
TRANSACTIONS: dict[str, Schema] = {
    **LATER,
    "encoding": choice("json", "jsonParsed", "base64", "base58", "binary"),
    "maxSupportedTransactionVersion": VERSION,
}
KEY = needed("pubkey", PUBKEY)
SLOT = needed("slot", UNSIGNED)
SIGNED = needed("transaction", {"type": "string", "description": "signed transaction in base64 or base58"})
URGENCY = choice("low", "medium", "high", "critical")
LEVEL = choice("Min", "Low", "Medium", "High", "VeryHigh", "UnsafeMax", "Default")


def plain(summary: str) -> MethodDocument:
    return MethodDocument(summary)


def in_context(summary: str) -> MethodDocument:
    return MethodDocument(summary, (config(**CONTEXT),))


def of_key(summary: str, **fields: Schema) -> MethodDocument:
    return MethodDocument(summary, (KEY, config(**(fields or CONTEXT))), (EXAMPLE_KEY,))


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
