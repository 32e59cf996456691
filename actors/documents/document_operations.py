"""Describes the pages and documents that anybody may read, for the OpenAPI document. Pure data."""

from actors.documents.operation import Operation


def _text(path: str, summary: str, content_type: str) -> Operation:
    """Describe a document that is text, and may be unchanged since the reader's copy."""
    return Operation(path, "documents", summary, {"type": "string"}, successes=(200, 304), content_type=content_type)


def _file(path: str, summary: str, content_type: str) -> Operation:
    return Operation(path, "documents", summary, {"type": "string"}, content_type=content_type)


DOCUMENTS = (
    Operation(
        "GET /console",
        "documents",
        "The page on which people look after an account; browsers get it at / too.",
        {"type": "string"},
        content_type="text/html; charset=utf-8",
    ),
    Operation("GET /openapi.json", "documents", "Describes every HTTP path.", {"type": "object"}, successes=(200, 304)),
    Operation(
        "GET /openrpc.json", "documents", "Describes every JSON-RPC method.", {"type": "object"}, successes=(200, 304)
    ),
    _text("GET /llms.txt", "Describes this service for language models.", "text/plain; charset=utf-8"),
    _text("GET /docs", "The reference page for readers.", "text/html; charset=utf-8"),
    _file("GET /robots.txt", "Tells programs that index the web what to read.", "text/plain"),
    _file("GET /favicon.ico", "The sign of this service.", "image/x-icon"),
    _file("GET /favicon.svg", "The sign of this service, in any size.", "image/svg+xml"),
)
