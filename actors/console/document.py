"""The console as one HTML document, and the headers that it is sent with.

Implements: README.md, "Safety". Pure: texts in, a document out. The files are joined unchanged: nothing is compiled,
and nothing comes from another host.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

_STYLE, _SCRIPT = "<!-- style -->", "<!-- script -->"


class ConsoleDocument(NamedTuple):
    """body: UTF-8. headers: beside content type and length."""

    body: bytes
    headers: tuple[tuple[str, str], ...]


def console_document(html: str, style: str, scripts: Sequence[str]) -> ConsoleDocument:
    """Put the style and the scripts into their places in the page. scripts: in order; they share one module."""
    script = "\n".join(scripts)
    assert html.count(_STYLE) == html.count(_SCRIPT) == 1, "the page has one place for its style and one for its script"
    assert "</style" not in style and "</script" not in script and "<!--" not in script, "a text would end its element"
    page = html.replace(_STYLE, f"<style>{style}</style>")
    page = page.replace(_SCRIPT, f'<script type="module">{script}</script>')
    return ConsoleDocument(page.encode(), _headers(_digest(style), _digest(script)))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _headers(style: str, script: str) -> tuple[tuple[str, str], ...]:
    """The page runs its own script and style, known by their hashes, and nothing else; it talks to its own origin, and
    no other page can frame it, open it with a handle, or read it. With Trusted Types no text can become HTML."""
    policy = (
        "default-src 'none'",
        f"script-src {script}",
        f"style-src {style}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return (
        ("content-security-policy", "; ".join(policy)),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
        ("cache-control", "no-cache"),
        ("vary", "accept"),
    )
