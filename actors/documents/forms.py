"""A JSON schema in words: tables of fields for readers, without patterns.

Implements: README.md. Pure. Shows only what a schema of schemas.py says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from actors.documents.receipt_schemas import SCHEMAS

_BOUND_MAX = 10**9
_DEPTH_MAX = 3  # Deeper fields are shown as "object": the table is for readers, and the OpenAPI document has the rest.


@dataclass(frozen=True, slots=True)
class FormTable:
    """One form of a body. caption: which form it is. rows: field, whether it is always there, its form."""

    caption: str
    rows: tuple[tuple[str, bool, str], ...]


def tables(schema: Mapping[str, Any]) -> list[FormTable]:
    """Make a table for each form of the value; for a value without fields, only a caption."""
    name, whole = _resolved(schema)
    alternatives = [each for each in whole.get("anyOf", ()) if each.get("type") != "null"]
    if alternatives:
        return [table for each in alternatives for table in tables(each)]
    caption = whole.get("description") or name
    if _is_list(whole):
        return [FormTable(caption or in_words(whole), tuple(_fields(whole["items"], "[].", 1)))]
    return [FormTable(caption, tuple(_fields(whole, "", 1)))]


def in_words(schema: Mapping[str, Any]) -> str:
    """Describe one value: its type, choices and bounds."""
    _, whole = _resolved(schema)
    if "anyOf" in whole:
        words = dict.fromkeys(in_words(each) for each in whole["anyOf"] if each.get("type") != "null")
        return " or ".join(words) + ("; or null" if {"type": "null"} in whole["anyOf"] else "")
    if "const" in whole:
        return orjson.dumps(whole["const"]).decode()
    if "enum" in whole:
        return " or ".join(orjson.dumps(value).decode() for value in whole["enum"])
    kinds = whole.get("type", "any value")
    text = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if _is_list(whole):
        bounds = _bounds(whole, "Items")
        text = f"list of {bounds + ': ' if bounds else ''}{in_words(whole['items'])}"
    elif bounds := _bounds(whole, "imum"):
        text += f" {bounds}"
    if whole.get("description"):
        text += f", {whole['description']}"
    return text + (f", {orjson.dumps(whole['default']).decode()} by default" if "default" in whole else "")


def _fields(schema: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, bool, str]]:
    _, whole = _resolved(schema)
    for name, field in whole.get("properties", {}).items():
        if field == {"type": "null"}:  # A field of another form of the same body.
            continue
        yield prefix + name, name in whole.get("required", ()), in_words(field)
        inner, mark = _inside(field)
        if inner is not None and depth < _DEPTH_MAX:
            yield from _fields(inner, f"{prefix}{name}{mark}.", depth + 1)


def _inside(field: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """Return the object whose fields are shown below this one, and the suffix for the name of a list."""
    _, whole = _resolved(field)
    forms = [each for each in whole.get("anyOf", [whole]) if each.get("type") != "null"]
    if len(forms) != 1:
        return None, ""
    _, form = _resolved(forms[0])
    if _is_list(form):
        _, item = _resolved(form["items"])
        return (item if "properties" in item else None), "[]"
    return (form if "properties" in form else None), ""


def _is_list(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "array" and "items" in schema


def _bounds(schema: Mapping[str, Any], end: str) -> str:
    """The least and the most of a number, or of the items of a list; bounds of the machine are left out."""
    least, most = schema.get(f"min{end}"), schema.get(f"max{end}")
    if most is None or most > _BOUND_MAX:
        return ""
    return f"{least} to {most}" if least else f"up to {most}"


def _resolved(schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Resolve a reference to its schema and name; return another schema unchanged."""
    if "$ref" not in schema:
        return "", schema
    name = str(schema["$ref"]).rpartition("/")[2]
    return name, SCHEMAS[name]
