"""Changes the configuration that Ray Serve renders for HAProxy, line by line.

Implements: threats 35, 48, 49 and 58; interface, "HTTP statuses and bodies" (errors of HAProxy
itself). Pure, and imports only the standard library: it runs each time HAProxy starts or reloads (front/process.py).

Serve renders a complete configuration and has no settings for most lines that are changed here. Each rule below names
the lines that it replaces and how many there must be. A configuration with another number of such lines is refused, so
that another version of Serve never runs with some of the rules only. Not here: writing files and checking Serve
(front/installation.py).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

FRONT_HEADER = "x-front-peer"  # Equal to identity/client_addresses.py; a test compares both.
PAGE_CODES = (
    400,
    403,
    404,
    405,
    408,
    410,
    413,
    422,
    425,
    429,
    500,
    501,
    502,
    503,
    504,
)  # HAProxy's pages.
CONNECTIONS_MIN = 256
EDGE_HTTP_SOCKET, EDGE_GRPC_SOCKET = "edge-http.sock", "edge-grpc.sock"  # front/tls_edge_config.py connects there.

IDLE_SECONDS = 75  # Idle time between two requests of a connection, and while a client reads nothing of an answer.
# The longest call takes 5 s for its hold, 30 s at the node and 15 s to settle; a longer one means a hanging replica.
_ANSWER_SECONDS = 60
_FILES_APART = 500  # Listeners, health checks, logs, and inherited files.
_FILES_PER_CONNECTION = 2.6  # One to the client, one to the replica, and HAProxy counts a pipe for every fourth.
BUSY_SHARE, HOG_SHARE = 0.75, 0.125
# Clients that all come back at once are no flood. But when 1,000 calls wait in a replica, gRPC refuses some at random,
# whoever makes them, so an address must not be able to make many more at once.
RATE_SECONDS = 2
# The calls whose requests have no end; all others are small and whole. A test compares them with geyser_proto/api.py.
GRPC_STREAMS = ("/geyser.Geyser/Subscribe", "/geyser.Geyser/SubscribeDeshred")
GRPC_REQUEST_BYTES_MAX = 1024  # For all other calls, whose largest has 60 bytes.
# HAProxy has one buffer for what a replica says on a stream. While a client leaves it full, HAProxy reads nothing more
# of that connection, so another client's stream on it would stand still.
ONE_CLIENT_A_CONNECTION = "tune.h2.be.max-concurrent-streams 1"
# Time for the answer to a health check. A busy replica answers late, and is not dead. HAProxy itself would give it the
# pause between two checks (1 s). A dead one refuses the connection, which ends a check at once; so the longer limit
# delays only the notice of a replica that hangs: two checks of 3 s, and the pauses before them.
_CHECK_SECONDS = 3
_CHECK = f"    timeout check {_CHECK_SECONDS}s"
# A replica's machine that is lost answers nothing at all. What was sent to it fails after four seconds, and not only at
# the end of the time for an answer. A replica that is busy is not lost: its machine acknowledges for it.
_LOST_MACHINES = (
    *("    option srvtcpka", "    srvtcpka-idle 1s", "    srvtcpka-intvl 1s", "    srvtcpka-cnt 3"),
    "    default-server tcp-ut 4s",
)
_LOOPBACK = "127.0.0.1"
_PUBLIC = ("frontend http_frontend", "frontend grpc_frontend")


class ConfigurationDiffers(Exception):
    """Serve rendered a configuration that the rules do not fit; the text names the difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontSettings:
    """The front's settings beside Serve's own configuration."""

    haproxy: str  # The real program.
    pages: str  # Folder of the error pages, one file a status.
    token: str  # Proves to a replica that a request came through the front.
    host: str | None  # Address that clients connect to; None: the one in Serve's configuration.
    websocket_port: int | None  # A second port, with the rules of the HTTP port; None: there is none.
    edge_folder: str | None  # Folder of the sockets on which the edge connects; None: there is no edge.
    connections_max: int
    request_seconds_max: int
    grpc_requests_per_address: int  # Calls in a second, as a mean of RATE_SECONDS.
    trusted_proxies: tuple[str, ...]  # Addresses and networks of many clients, without that limit.
    has_spare: bool  # Only the first replica gets calls; the next one does as soon as the first is down.


@dataclass(frozen=True, slots=True)
class _Rule:
    section: str  # A pattern of the section's first line.
    line: str  # A pattern of the whole line, without its indent.
    count: range
    replace: Callable[[re.Match[str]], Sequence[str]]


_ONCE, _ANY = range(1, 2), range(1_000_000)


def connections(wanted: int, files_max: int) -> int:
    """Return how many connections HAProxy may hold: as many as wanted, or as its limit of open files allows.

    HAProxy refuses to start with a number that its limit does not allow. Raises ConfigurationDiffers below
    CONNECTIONS_MIN, which is too few to serve clients.
    """
    possible = int((files_max - _FILES_APART) / _FILES_PER_CONNECTION)
    if possible < CONNECTIONS_MIN:
        raise ConfigurationDiffers(
            f"this process may open {files_max} files, which is room for {max(0, possible)} connections; "
            "raise the limit (ulimit -n) to 20,000 or more"
        )
    return min(wanted, possible)


def rewrite(rendered: str, settings: FrontSettings, files_max: int) -> str:
    """Return the configuration that HAProxy runs with. Raises ConfigurationDiffers."""
    rules = _rules(settings, connections(settings.connections_max, files_max))
    found = [0] * len(rules)
    lines: list[str] = []
    for section, line in by_section(rendered):
        for index, rule in enumerate(rules):
            match = re.fullmatch(rule.line, line.strip())
            if match is not None and re.fullmatch(rule.section, section):
                found[index] += 1
                lines += rule.replace(match)
                break
        else:
            lines.append(line)
    for rule, count in zip(rules, found, strict=True):
        if count not in rule.count:
            raise ConfigurationDiffers(f"in section {rule.section!r} {count} lines match {rule.line!r}")
    text = "\n".join(lines) + "\n"
    _check(text)
    return text


def _rules(settings: FrontSettings, connections_max: int) -> tuple[_Rule, ...]:
    pages = PurePath(settings.pages)
    unavailable = f"status 503 errorfile {pages / '503.http'}"
    return (
        # A user who can write to this socket controls HAProxy. With mode 666 only the folder would prevent that.
        _Rule("global", r"stats socket (\S+) mode 666 (.*)", _ONCE, _put(r"    stats socket \1 mode 600 \2")),
        # Request lines may have keys in them. A line that is made and then sent nowhere costs a tenth of a request.
        _Rule("global", r"log \S.*", _ONCE, _put()),
        _Rule(".*", "log global", _ANY, _put()),
        _Rule("defaults", "option httplog", _ONCE, _put()),
        _Rule("global", r"maxconn \d+", _ONCE, _put(f"    maxconn {connections_max}")),
        _Rule("defaults", r"timeout (client|server|http-request|http-keep-alive) .*", _ANY, _put()),
        _Rule("defaults", r"errorfile 50[234] .*", range(3, 4), _put()),
        _Rule("defaults", "mode http", _ONCE, _put("    mode http", *_defaults(settings, pages))),
        _Rule("frontend prometheus", r"bind :(\d+)", _ONCE, _put(rf"    bind {_LOOPBACK}:\1")),
        _Rule("listen stats", r"bind \*:(\d+)", _ONCE, _put(rf"    bind {_LOOPBACK}:\1")),
        _Rule(
            "frontend http_frontend",
            r"bind (\S*):(\d+)",
            _ONCE,
            lambda match: [
                *_http_binds(settings, match[1], match[2]),
                *_frontend(settings, connections_max),
            ],
        ),
        *_grpc_rules(settings, connections_max),
        # Serve's own "not ready" answer is plain text.
        _Rule(
            "frontend http_frontend",
            r'http-request return status 503 content-type text/plain string ".*?"( if .*)?',
            _ANY,
            lambda match: [f"    http-request return {unavailable}{match[1] or ''}"],
        ),
        # Before the application is deployed; afterwards it takes all paths.
        _Rule(
            "backend default_backend",
            r"http-request return status 404 .*",
            _ONCE,
            _put(f"    http-request return {unavailable}"),
        ),
        # Serve's Python proxy would take over when no replica is up: it queues without bound. A 503 says when to retry.
        _Rule("backend http-.*", r"server \S+ \S+ check backup", _ANY, _put()),
        _Rule("backend http-.*", "http-reuse always", _ANY, _put("    http-reuse always", _CHECK, *_backend(pages))),
        *([_spares("backend http-.*"), _spares("backend (?!http-|grpc_fallback).*")] if settings.has_spare else []),
    )


def _spares(section: str) -> _Rule:
    """Return the rule that makes every replica but the first one of these sections a spare."""
    found = 0

    def replace(match: re.Match[str]) -> Sequence[str]:
        nonlocal found
        found += 1
        return [f"    {match[0]}{' backup' if found > 1 else ''}"]

    return _Rule(section, r"server \S+ \S+( proto h2)? check( observe .*)?", _ANY, replace)


def _grpc_rules(settings: FrontSettings, connections_max: int) -> tuple[_Rule, ...]:
    """Return the rules for the port of gRPC, if Serve has one."""
    pages = PurePath(settings.pages)
    return (
        _Rule("global", r"tune\.h2\.be\.max-concurrent-streams \d+", _ANY, _put(f"    {ONE_CLIENT_A_CONNECTION}")),
        _Rule(
            "frontend grpc_frontend",
            r"bind (\S*):(\d+) proto h2",
            _ANY,
            lambda match: [
                f"    bind {bracketed(settings.host or match[1])}:{match[2]}{both_families(settings.host)} proto h2",
                *_edge_bind(settings, EDGE_GRPC_SOCKET, "h2"),
                *_connections_of_an_address(connections_max, f",http_req_rate({RATE_SECONDS}s)"),
                *_calls_of_an_address(settings),
                *_whole_calls(settings),
                _names_the_peer(settings),
                *grpc_pages(pages),
            ],
        ),
        # Serve's own calls name its applications; its Python proxy would answer them, and take calls over.
        _Rule(
            "frontend grpc_frontend",
            "(use_backend grpc_fallback_backend|http-request return status 200 .*) if is_list_applications",
            _ANY,
            _put(
                "    http-request return status 200 hdr grpc-status 12 "
                'hdr grpc-message "not offered" if is_list_applications'
            ),
        ),
        # While a controller that has just started names no application, which is no fault of the call's.
        _Rule(
            "backend default_grpc_backend",
            "http-request return status 200 .* hdr grpc-status 5 .*",
            _ANY,
            _put(
                "    http-request return status 200 content-type application/grpc hdr grpc-status 14 "
                'hdr grpc-message "no replica is known here yet; try again after 1 s"'
            ),
        ),
        _Rule("backend (?!http-).*", r"server \S+ \S+ proto h2 check backup", _ANY, _put()),
        _Rule(
            "backend (?!http-).*",
            "http-reuse always",
            _ANY,
            _put("    http-reuse always", _CHECK, *grpc_pages(pages)),
        ),
    )


def grpc_pages(pages: PurePath) -> Iterator[str]:
    """Name the pages of gRPC. A backend needs them as well as its frontend: else it has those of the defaults."""
    for code in PAGE_CODES:
        yield f"    errorfile {code} {pages / grpc_page_name(code)}"


def grpc_page_name(code: int) -> str:
    return f"grpc-{code}.http"


def _put(*lines: str) -> Callable[[re.Match[str]], Sequence[str]]:
    """Return a replacement by these lines; `\\1` stands for the first group of the match."""
    return lambda match: [match.expand(line) if "\\" in line else line for line in lines]


def _defaults(settings: FrontSettings, pages: PurePath) -> Iterator[str]:
    yield f"    timeout client {IDLE_SECONDS}s"
    yield f"    timeout http-keep-alive {IDLE_SECONDS}s"
    yield f"    timeout server {_ANSWER_SECONDS}s"
    yield from _LOST_MACHINES
    # A WebSocket on which neither side says anything. The replica pings every 25 s.
    yield f"    timeout tunnel {IDLE_SECONDS}s"
    # For all headers and the first 15 kB of the body together (option http-buffer-request).
    yield f"    timeout http-request {settings.request_seconds_max}s"
    for code in PAGE_CODES:
        yield f"    errorfile {code} {pages / f'{code}.http'}"


def _http_binds(settings: FrontSettings, host_of_serve: str, http_port: str) -> Iterator[str]:
    """Yield a line for each port that clients send HTTP to. All rules of the frontend hold for both ports."""
    ports = [http_port] if settings.websocket_port is None else [http_port, str(settings.websocket_port)]
    for port in ports:
        # "proto h1": otherwise HAProxy also accepts HTTP/2, and these limits do not apply to its streams.
        yield f"    bind {bracketed(settings.host or host_of_serve)}:{port}{both_families(settings.host)} proto h1"
    yield from _edge_bind(settings, EDGE_HTTP_SOCKET, "h1")


def _edge_bind(settings: FrontSettings, socket: str, protocol: str) -> Iterator[str]:
    """Yield the socket for the edge. Only this user can open it, so the address that the edge tells is believed."""
    if settings.edge_folder is not None:
        path = PurePath(settings.edge_folder) / socket
        yield f"    bind unix@{path} mode 600 accept-proxy proto {protocol}"


def _frontend(settings: FrontSettings, connections_max: int) -> Iterator[str]:
    # A replica gets a request only after its head and the first 15 kB of its body have arrived.
    yield "    option http-buffer-request"
    yield from _connections_of_an_address(connections_max)
    yield _names_the_peer(settings)


def _connections_of_an_address(connections_max: int, stored: str = "") -> Iterator[str]:
    """When the front is nearly full, an address (of IPv6: a /64) with many connections gets no more.

    "session": rules of "connection" run before the PROXY protocol is read, and would not see the clients of the edge.
    """
    busy, hog = int(connections_max * BUSY_SHARE), int(connections_max * HOG_SHARE)
    yield f"    stick-table type ipv6 size 100k expire 60s store conn_cur{stored}"
    yield "    tcp-request session track-sc0 src,ipmask(32,64)"
    yield f"    tcp-request session reject if {{ fe_conn gt {busy} }} {{ sc0_conn_cur gt {hog} }}"


def _calls_of_an_address(settings: FrontSettings) -> Iterator[str]:
    """Refuse the calls of an address that makes too many: each costs a replica work, also one that is reset at once."""
    unless = ""
    if settings.trusted_proxies:
        yield f"    acl from_a_trusted_proxy src {' '.join(settings.trusted_proxies)}"
        unless = " !from_a_trusted_proxy"
    a_second = settings.grpc_requests_per_address
    # HAProxy leaves out the type of an answer without a body; some clients then say only that it is missing.
    has_no_type = "{ status 200 } !{ res.hdr(content-type) -m found }"
    yield f"    http-after-response set-header content-type application/grpc if {has_no_type}"
    text = f"too many calls from this address, at most {a_second} a second; try again after {RATE_SECONDS} seconds"
    yield (
        "    http-request return status 200 hdr grpc-status 8 "
        f'hdr grpc-message "{text}" if {{ sc0_http_req_rate gt {a_second * RATE_SECONDS} }}{unless}'
    )


def _whole_calls(settings: FrontSettings) -> Iterator[str]:
    """Pass a complete call that is not a stream on: a replica would otherwise read 4 MiB of it from any client."""
    text = f"the request is larger than {GRPC_REQUEST_BYTES_MAX} bytes"
    yield f"    acl is_grpc_stream path {' '.join(GRPC_STREAMS)}"
    yield f"    http-request wait-for-body time {settings.request_seconds_max}s unless is_grpc_stream"
    yield (
        f'    http-request return status 200 hdr grpc-status 8 hdr grpc-message "{text}" '
        f"if !is_grpc_stream {{ req.body_size gt {GRPC_REQUEST_BYTES_MAX} }}"
    )


def _names_the_peer(settings: FrontSettings) -> str:
    """Replace all headers of this name that the client sent."""
    return f'    http-request set-header {FRONT_HEADER} "{settings.token} %[src]"'


def _backend(pages: PurePath) -> Iterator[str]:
    """Replace every error answer that is not JSON: it comes from Serve or its HTTP server, not from the gateway."""
    yield "    acl said_by_the_gateway res.hdr(content-type) -m beg application/json"
    for statuses, code in (("400:499", 400), ("500", 500), ("502", 502), ("503", 503), ("504", 504)):
        page = pages / f"{code}.http"
        yield f"    http-response return status {code} errorfile {page} if {{ status {statuses} }} !said_by_the_gateway"


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def both_families(host: str | None) -> str:
    """Make the unspecified IPv6 address stand for all IPv4 and IPv6 addresses, as in other servers."""
    return " v4v6" if host == "::" else ""


def by_section(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with the first line of its section."""
    section = ""
    for line in text.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            section = line.strip()
        yield section, line


def _check(text: str) -> None:
    """Check the rules that hold for every configuration, whatever Serve rendered."""
    for section, line in by_section(text):
        words = line.split()
        if words[:1] == ["bind"] and section not in _PUBLIC and not words[1].startswith(f"{_LOOPBACK}:"):
            raise ConfigurationDiffers(f"in section {section!r} {line.strip()!r} is open to other machines")
        if words[:2] == ["stats", "socket"] and "mode 600" not in line:
            raise ConfigurationDiffers(f"{line.strip()!r}: this socket is open to other users")
