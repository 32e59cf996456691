"""Which content and which coding a request prefers, and whether its own body is JSON, by its headers.

Implements: RFC 9110, sections 12.5.1 and 12.5.3, as far as a few kinds of content and two codings need it; decisions,
"Content types and codings". Pure.
"""

import functools
from collections.abc import Iterable, Sequence

_PARTS_MAX = 50  # Parts of one header; browsers send about ten.
CODINGS = (b"zstd", b"gzip")  # The first wins when a client likes both equally: it takes a fifth of the time.
_ALIASES = {b"x-gzip": b"gzip"}
_JSON_TYPES = frozenset(
    (
        *(b"", b"application/json", b"text/json", b"application/json-rpc", b"application/jsonrequest"),
        b"application/octet-stream",  # HTTP's default for a body without a type; some clients use it for any bytes.
    )
)


def prefers(headers: Iterable[tuple[bytes, bytes]], wanted: bytes, usual: bytes) -> bool:
    """Return whether the client names `wanted` and does not prefer `usual`. False without a header."""
    return preferred(headers, (wanted,), usual) == wanted


def preferred(headers: Iterable[tuple[bytes, bytes]], others: Sequence[bytes], usual: bytes) -> bytes:
    """Return the kind of content that the client likes best: one of `others` that it names, the earlier of two that it
    likes equally, or else the usual one.

    others, usual: such as b"text/csv". A wildcard does not name anything, so tools that accept everything get the usual
    content.
    """
    accepts = b",".join(value for name, value in headers if name == b"accept").lower()
    if not any(kind in accepts for kind in others):
        return usual
    liked = dict.fromkeys((*others, usual), 0.0)
    for part in accepts.split(b",")[:_PARTS_MAX]:
        kind, *parameters = (piece.strip() for piece in part.split(b";"))
        if kind in liked:
            liked[kind] = _quality(parameters)
    best = max(others, key=liked.__getitem__)
    return best if liked[best] > 0.0 and liked[best] >= liked[usual] else usual


def _quality(parameters: Iterable[bytes]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"q":
            try:
                return float(value) if 0 <= float(value) <= 1 else 0.0
            except ValueError:
                return 0.0
    return 1.0


def coding_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the coding that a client likes best by its Accept-Encoding; None: the content stays uncompressed."""
    return _coding(b",".join(value for name, value in headers if name == b"accept-encoding")[:1_024])


@functools.lru_cache(maxsize=256)  # Clients send few different values.
def _coding(accepts: bytes) -> bytes | None:
    """Ignore wildcards: a client that sends only a wildcard does not say which coding it can read."""
    liked: dict[bytes, float] = {}
    for part in accepts.lower().split(b",")[:_PARTS_MAX]:
        name, *parameters = (piece.strip() for piece in part.split(b";"))
        liked[_ALIASES.get(name, name)] = _quality(parameters)
    best = max(CODINGS, key=lambda name: liked.get(name, 0.0))
    quality = liked.get(best, 0.0)
    return best if quality > 0.0 and quality >= liked.get(b"identity", 0.0) else None


def is_json(content_type: bytes) -> bool:
    """Return whether a body with this Content-Type counts as JSON. A missing type is empty."""
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in _JSON_TYPES or (kind.startswith(b"application/") and kind.endswith(b"+json"))
