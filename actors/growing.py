"""Base of values that are pickled to actors and have new fields since the last release.

Implements: hotlink/README.md, "Releases side by side". msgspec pickles a struct as its class and all its fields, which
a process of the release before refuses when there is one more. A `Growing` struct leaves out the last fields while they
have their defaults, so the previous release reads it as long as the new fields are unused. Pure.
"""

from functools import cache
from typing import Any

import msgspec


class Growing(msgspec.Struct, frozen=True):
    """New fields come last, and their defaults keep the former meaning."""

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
