"""Writes the methods of the OpenRPC document as types of TypeScript: `python -m tests.documents.typescript_methods`.

The client clients/typescript has them as src/methods.ts. Of an OpenRPC document of somebody's own gateway:
`python -m tests.documents.typescript_methods openrpc.json > methods.ts`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from actors.documents import openrpc

from .service import the_offer

PLACE = Path(__file__).parents[2] / "clients" / "typescript" / "src" / "methods.ts"
_WIDTH = 120
_HEAD = """\
// The JSON-RPC methods and their parameters, as GET /openrpc.json of a gateway has them. Made by
// `python -m tests.documents.typescript_methods`, not by hand. Results are the node's own, and not described there.

/** Whole numbers beyond 2^53 are `bigint`. */
export type Whole = number | bigint;

/** Parameters by method, in their order. */
export interface Methods {
"""
_TAIL = """\
}

export type MethodName = keyof Methods;
"""
_WORDS = {
    "string": "string",
    "boolean": "boolean",
    "integer": "Whole",
    "number": "number",
    "null": "null",
}


def text(document: Mapping[str, Any]) -> str:
    """The file of an OpenRPC document."""
    return _HEAD + "\n".join(_method(method) for method in document["methods"]) + _TAIL


def _method(method: Mapping[str, Any]) -> str:
    parameters = [
        f"{each['name']}{'' if each['required'] else '?'}: {kind(each['schema'], '    ')}" for each in method["params"]
    ]
    name = method["name"] if method["name"].isidentifier() else json.dumps(method["name"])
    line = f"  {name}: [{', '.join(parameters)}];"
    if len(line) > _WIDTH or "\n" in line:
        line = "\n".join((f"  {name}: [", *(f"    {each}," for each in parameters), "  ];"))
    told = f"{method['summary'].rstrip('.')}. {method['description']}"
    return f"  /** {_safe(told)} */\n{line}\n"


def kind(schema: Mapping[str, Any], indent: str = "") -> str:
    """The type of a JSON Schema. indent: of the line that it begins in."""
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return _union(kind(each, indent) for each in schema["anyOf"])
    words = schema.get("type", ())
    words = [words] if isinstance(words, str) else words
    return _union(_of_word(word, schema, indent) for word in words) or "unknown"


def _of_word(word: str, schema: Mapping[str, Any], indent: str) -> str:
    if word == "array":
        items = kind(schema.get("items", {}), indent)
        return f"readonly ({items})[]" if " | " in items else f"readonly {items}[]"
    if word == "object":
        return _object(schema, indent)
    return _WORDS[word]


def _object(schema: Mapping[str, Any], indent: str) -> str:
    fields: Mapping[str, Any] = schema.get("properties", {})
    if not fields:
        return "Readonly<Record<string, unknown>>"
    required = schema.get("required", ())
    inner = indent + "  "
    lines = []
    for name, field in fields.items():
        if "description" in field:
            lines.append(f"{inner}/** {_safe(field['description'])} */")
        lines.append(f"{inner}{name}{'' if name in required else '?'}: {kind(field, inner)};")
    return "\n".join(("{", *lines, f"{indent}}}"))


def _union(kinds: Iterator[str]) -> str:
    return " | ".join(dict.fromkeys(kinds))


def _safe(told: str) -> str:
    return told.replace("*/", "* /")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(text(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    else:
        PLACE.write_text(text(openrpc.document(the_offer())), encoding="utf-8")
