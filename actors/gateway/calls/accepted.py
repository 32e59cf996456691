"""Which content a request prefers, by its Accept header.

Implements: RFC 9110, section 12.5.1, as far as two kinds of content need it. Pure.
"""

from collections.abc import Iterable

_PARTS_MAX = 50  # Of one header; browsers send about ten.


def prefers(headers: Iterable[tuple[bytes, bytes]], wanted: bytes, usual: bytes) -> bool:
    """Return whether the client names `wanted` and does not like `usual` better. Without a header: no.

    wanted, usual: such as b"text/csv". A wildcard does not name anything, so tools that accept everything get the usual
    content.
    """
    accepts = b",".join(value for name, value in headers if name == b"accept")
    if wanted not in accepts.lower():
        return False
    liked = {wanted: 0.0, usual: 0.0}
    for part in accepts.lower().split(b",")[:_PARTS_MAX]:
        kind, *parameters = (piece.strip() for piece in part.split(b";"))
        if kind in liked:
            liked[kind] = _quality(parameters)
    return liked[wanted] > 0.0 and liked[wanted] >= liked[usual]


def _quality(parameters: Iterable[bytes]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"q":
            try:
                return float(value) if 0 <= float(value) <= 1 else 0.0
            except ValueError:
                return 0.0
    return 1.0
