"""The pages of documents: /openapi.json, /openrpc.json, /llms.txt and /docs.

Implements: RFC 9110, sections 8.8.3 and 13.1.2 (ETag, If-None-Match). Public, and cheap: each is encoded once when a
replica starts, and a client that has it is told so with 304.
"""

import hashlib
from dataclasses import dataclass

import orjson

from actors.documents import llms, openapi, openrpc, reference
from actors.documents.offer import Offer
from actors.pages import JSON, Page, PageAnswer, PageRequest

_CACHED = "public, max-age=300"
# The reference page uses only its own style: it runs no script and loads nothing.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
ENDPOINTS = ("GET /openapi.json", "GET /openrpc.json", "GET /llms.txt", "GET /docs")


@dataclass(frozen=True, slots=True)
class Document:
    """One page as sent. etag: of exactly these bytes."""

    path: str
    body: bytes
    content_type: str
    etag: str
    headers: tuple[tuple[str, str], ...]

    async def answer(self, request: PageRequest) -> PageAnswer:
        if is_known(request.headers.get("if-none-match", ""), self.etag):
            return PageAnswer(b"", 304, self.content_type, self.headers)
        return PageAnswer(self.body, 200, self.content_type, self.headers)


def pages(offer: Offer) -> list[Page]:
    """offer.served: with ENDPOINTS."""
    documents = (
        _document("/openapi.json", orjson.dumps(openapi.document(offer)), JSON),
        _document("/openrpc.json", openrpc_bytes(offer), JSON),
        _document("/llms.txt", llms.text(offer).encode(), "text/plain; charset=utf-8"),
        _document("/docs", reference.page(offer).encode(), "text/html; charset=utf-8", _POLICY),
    )
    found = [Page("GET", one.path, one.answer, is_public=True, is_limited=False) for one in documents]
    assert tuple(page.endpoint for page in found) == ENDPOINTS
    return found


def openrpc_bytes(offer: Offer) -> bytes:
    """Return the document, as `rpc.discover` also gives it."""
    return orjson.dumps(openrpc.document(offer))


def is_known(if_none_match: str, etag: str) -> bool:
    """Return whether the client has this version: RFC 9110, 13.1.2, where W/ makes no difference."""
    if if_none_match.strip() == "*":
        return True
    return any(tag.strip().removeprefix("W/") == etag for tag in if_none_match.split(","))


def _document(path: str, body: bytes, content_type: str, policy: str = "") -> Document:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = [("etag", etag), ("cache-control", _CACHED), ("x-content-type-options", "nosniff")]
    if policy:
        headers.append(("content-security-policy", policy))
    return Document(path, body, content_type, etag, tuple(headers))
