"""The forms in which answers are stored under an Idempotency-Key. Pure.

A release reads what those before it stored: new fields stand last, with a default.
"""

import msgspec


class KeptAnswer(msgspec.Struct, frozen=True, array_like=True):
    """A node's or the block engine's answer as it is stored. http, bundle_id: of the engine's."""

    kind: int
    body: bytes
    id_start: int
    id_end: int
    http: int = 200
    bundle_id: str = ""
    posted: int = 0


class KeptPage(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a path that is no call."""

    status: int
    body: bytes
