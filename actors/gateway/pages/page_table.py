"""Finds the page of a path among those that other contexts serve.

Implements: threat 6 (one canonical path: bytes are compared, nothing is decoded). Pure.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.pages import Page

_PARAMETER = re.compile(rb"[A-Za-z0-9._~-]{1,128}")  # Longer than any id or base58 text.


class PathPages(NamedTuple):
    """The pages of a path by HTTP method, and the parameters that the path holds."""

    pages: Mapping[str, Page]
    parameters: Mapping[str, str]

    @property
    def methods(self) -> str:
        return ", ".join(sorted(self.pages))


class PageTable:
    """The pages by path. Raises AssertionError if one page could hide another, and for a path in `taken`."""

    def __init__(self, pages: Iterable[Page], taken: Iterable[bytes] = ()) -> None:
        self._exact: dict[bytes, dict[str, Page]] = {}
        self._patterns: dict[tuple[bytes, ...], dict[str, Page]] = {}
        self.pages = tuple(pages)
        for page in self.pages:
            path = page.path.encode()
            if b"{" in path:
                by_method = self._patterns.setdefault(tuple(path.split(b"/")), {})
            else:
                by_method = self._exact.setdefault(path, {})
            assert page.method not in by_method, f"two pages for {page.endpoint}"
            by_method[page.method] = page
        assert not self._exact.keys() & set(taken), "a page has a path that the gateway itself serves"
        patterns = list(self._patterns)
        for index, one in enumerate(patterns):
            assert all(_differ(one, other) for other in patterns[:index]), f"{one} and another fit one path"

    def find(self, path: bytes) -> PathPages | None:
        """Find the pages of a path as the client sent it. A path without parameters takes precedence over a pattern."""
        by_method = self._exact.get(path)
        if by_method is not None:
            return PathPages(by_method, {})
        segments = path.split(b"/", 16)
        for pattern, pages in self._patterns.items():
            parameters = _match(pattern, segments)
            if parameters is not None:
                return PathPages(pages, parameters)
        return None


def _match(pattern: tuple[bytes, ...], segments: list[bytes]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    parameters: dict[str, str] = {}
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted[:1] == b"{":
            if not _PARAMETER.fullmatch(segment):
                return None
            parameters[wanted[1:-1].decode()] = segment.decode()
        elif wanted != segment:
            return None
    return parameters


def _differ(one: tuple[bytes, ...], other: tuple[bytes, ...]) -> bool:
    """Return whether no path fits both patterns."""
    if len(one) != len(other):
        return True
    return any(a != b and a[:1] != b"{" and b[:1] != b"{" for a, b in zip(one, other, strict=True))
