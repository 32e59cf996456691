"""Renders the configuration of the edge: an HAProxy that speaks TLS to clients and passes requests on to the front.

Implements: design, "Outside face"; threats 35, 45, 48, 49 and 58 on the TLS port. launch/FRONT.md explains the
edge. Not here: starting HAProxy (front/tls_edge.py), the front's own rules (front/config.py).

The edge hands over the client's address by the PROXY protocol, on sockets that only this user can open. The front then
sees each client as if it had connected there itself, so no header has to be believed.
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from actors.config import environment_name
from actors.launch.front.config import (
    BUSY_SHARE,
    EDGE_GRPC_SOCKET,
    EDGE_HTTP_SOCKET,
    HOG_SHARE,
    IDLE_SECONDS,
    ONE_CLIENT_A_CONNECTION,
    PAGE_CODES,
    both_families,
    bracketed,
    grpc_page_name,
    grpc_pages,
)

# For a TLS handshake, and for a client that reads nothing: as the front, so that the status of a gRPC stream that fell
# behind waits as long for its client. A stream that the server writes to is not affected.
_CLIENT_SECONDS = IDLE_SECONDS
_ANSWER_SECONDS = 65  # The front gives up first, after 60 s, with the interface's error.
_TUNNEL_SECONDS = 90  # A WebSocket without a message; the gateway pings every 25 s.
_QUEUE_SECONDS = 2
_STREAMS_PER_CONNECTION = 256  # One HTTP/2 connection of a gRPC client may have 200 streams at once.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # Of TLS 1.2: forward secrecy and authenticated encryption only.


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSettings:
    host: str
    port: int
    certificate: str  # PEM file with the chain and the private key.
    folder: str  # Closed to other users; the front's sockets and the admin socket are in it.
    pages: str  # Folder of the error pages, one file a status.
    connections_max: int
    request_seconds_max: int
    threads: int
    trusted_proxies: tuple[str, ...]  # Addresses and networks whose X-Forwarded-For passes.


def render(settings: EdgeSettings) -> str:
    return "\n".join((*_global(settings), *_defaults(settings), *_frontend(settings), *_backends(settings), ""))


def _global(settings: EdgeSettings) -> Iterator[str]:
    yield "global"
    yield f"    stats socket {PurePath(settings.folder) / 'edge-admin.sock'} mode 600 level admin"
    yield f"    maxconn {settings.connections_max}"
    yield f"    nbthread {settings.threads}"
    yield "    hard-stop-after 10s"
    yield "    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets"
    yield f"    ssl-default-bind-ciphers {_CIPHERS}"
    yield f"    tune.h2.fe.max-concurrent-streams {_STREAMS_PER_CONNECTION}"
    yield f"    {ONE_CLIENT_A_CONNECTION}"
    # Browsers then open WebSockets over HTTP/1.1, which is the one form that the front and the gateway take.
    yield "    h2-workaround-bogus-websocket-clients"


def _defaults(settings: EdgeSettings) -> Iterator[str]:
    yield "defaults"
    yield "    mode http"
    yield "    timeout connect 2s"
    yield f"    timeout client {_CLIENT_SECONDS}s"
    yield f"    timeout server {_ANSWER_SECONDS}s"
    yield f"    timeout http-request {settings.request_seconds_max}s"
    yield f"    timeout http-keep-alive {IDLE_SECONDS}s"
    yield f"    timeout tunnel {_TUNNEL_SECONDS}s"
    yield f"    timeout queue {_QUEUE_SECONDS}s"
    yield "    option http-no-delay"
    yield "    option abortonclose"
    yield "    retries 1"
    for code in PAGE_CODES:
        yield f"    errorfile {code} {PurePath(settings.pages) / f'{code}.http'}"


def _frontend(settings: EdgeSettings) -> Iterator[str]:
    busy, hog = int(settings.connections_max * BUSY_SHARE), int(settings.connections_max * HOG_SHARE)
    address = f"{bracketed(settings.host)}:{settings.port}{both_families(settings.host)}"
    yield "frontend edge"
    yield f"    bind {address} ssl crt {settings.certificate} alpn h2,http/1.1"
    # As in the front: when it is nearly full, an address (of IPv6: a /64) with many connections gets no more. The same
    # for requests, because one HTTP/2 connection carries many.
    yield "    stick-table type ipv6 size 100k expire 60s store conn_cur"
    yield "    tcp-request connection track-sc0 src,ipmask(32,64)"
    yield f"    tcp-request connection reject if {{ fe_conn gt {busy} }} {{ sc0_conn_cur gt {hog} }}"
    yield "    http-request track-sc1 src,ipmask(32,64) table edge_requests"
    # Not "application/grpc-web", which is plain HTTP.
    yield "    acl is_grpc req.hdr(content-type) -i -m str application/grpc"
    yield "    acl is_grpc req.hdr(content-type) -i -m beg application/grpc+ application/grpc;"
    too_many_for_grpc = PurePath(settings.pages) / grpc_page_name(429)
    for backend in ("edge_http", "edge_grpc"):
        too_many = f"{{ be_conn({backend}) gt {busy} }} {{ sc1_conn_cur gt {hog} }}"
        yield f"    http-request return status 200 errorfile {too_many_for_grpc} if is_grpc {too_many}"
        yield f"    http-request deny deny_status 429 if {too_many}"
    unless = ""
    if settings.trusted_proxies:
        yield f"    acl from_a_trusted_proxy src {' '.join(settings.trusted_proxies)}"
        unless = " unless from_a_trusted_proxy"
    for header in ("x-forwarded-for", "forwarded", "x-real-ip"):
        yield f"    http-request del-header {header}{unless}"
    yield "    use_backend edge_grpc if is_grpc"
    yield "    default_backend edge_http"


def _backends(settings: EdgeSettings) -> Iterator[str]:
    folder = PurePath(settings.folder)
    yield "backend edge_requests"
    yield "    stick-table type ipv6 size 100k expire 60s store conn_cur"
    yield "backend edge_http"
    # The front sees a request only after its head and the first 15 kB of its body have arrived. Not for gRPC, whose
    # requests may stay open as long as their answers.
    yield "    option http-buffer-request"
    server = f"send-proxy-v2 maxconn {settings.connections_max}"
    yield f"    server front unix@{folder / EDGE_HTTP_SOCKET} {server}"
    yield "backend edge_grpc"
    yield from grpc_pages(PurePath(settings.pages))
    yield f"    server front unix@{folder / EDGE_GRPC_SOCKET} {server} proto h2"


def certificate_mistake(path: Path) -> str | None:
    """Return why TLS cannot be served with this file. None: it holds a certificate and the key that belongs to it."""
    advice = (
        f"name a PEM file with certificate chain and private key in {environment_name('serve.tls_certificate_file')}"
    )
    try:
        # An encrypted key is refused: without a passphrase here OpenSSL would ask on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path.expanduser(), password=lambda: "")
    except ssl.SSLError as error:
        reason = (
            "its key belongs to another certificate"
            if "MISMATCH" in str(error)
            else ("it does not hold both a certificate and a private key without passphrase")
        )
        return f"serve.tls_certificate_file: {path}: {reason}; {advice}"
    except OSError as error:
        return f"serve.tls_certificate_file: {path}: cannot be read ({error.strerror}); {advice}"
    return None
