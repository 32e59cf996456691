"""Values that travel to actors by pickle, and that got fields since the last release.

Implements: hotlink/README.md, "Releases side by side". msgspec pickles a struct as its class and all its fields, which
a process of the release before refuses when there is one more. A `Growing` struct leaves out the last fields while they
have their defaults, so the release before reads it as long as it is not told anything new. Pure.
"""

from functools import cache
from typing import Any

import msgspec


class Growing(msgspec.Struct, frozen=True):
    """New fields stand last, and have a default that means what was so before."""

    def __reduce__(self) -> tuple[Any, ...]:
        names, defaults = _fields_of(type(self))
        values = [getattr(self, name) for name in names]
        while values and values[-1] == defaults[len(values) - 1]:
            values.pop()
        return type(self), tuple(values)


@cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields), tuple(field.default for field in fields)
