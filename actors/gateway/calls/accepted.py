"""Which content a request prefers, by its Accept header.

Implements: RFC 9110, section 12.5.1, as far as a few kinds of content need it. Pure.
"""

from collections.abc import Iterable, Sequence

_PARTS_MAX = 50  # Of one header; browsers send about ten.


def prefers(headers: Iterable[tuple[bytes, bytes]], wanted: bytes, usual: bytes) -> bool:
    """Return whether the client names `wanted` and does not like `usual` better. Without a header: no."""
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
