"""Parses a node's URL once, into the parts that every request needs.

Pure. Not here: connecting (kept_connections.py, single_connections.py).
"""

import base64
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """target: path and query as in the URL. url: the URL without user and password, which are in `headers` instead."""

    url: str
    target: str
    headers: dict[str, str]

    def request_head(self) -> bytes:
        """Build an HTTP/1.1 request up to the length of its body. It is constant, so it is made once for each node."""
        lines = [f"POST {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("ascii")


def node_address(url: str) -> NodeAddress:
    """Parse a node's URL. Raises ValueError for a URL that names no HTTP server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the node's URL must start with http:// or https://, not {parts.scheme or 'nothing'}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}:{parts.port}" if parts.port else host
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if " " in place + target or not (place + target).isascii():
        raise ValueError("the node's URL contains a space, or a character that is not ASCII")
    headers = {
        "Host": place,
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "ledger-gateway",
    }
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return NodeAddress(f"{parts.scheme}://{place}{target}", target, headers)
