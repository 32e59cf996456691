"""The rules for the front's configuration, over what Ray Serve renders."""

from pathlib import Path

import pytest
from ray.serve._private import haproxy_templates

from actors.geyser_proto import api
from actors.identity import client_addresses
from actors.launch.front import config as front_config
from actors.launch.front.config import CONNECTIONS_MIN, ConfigurationDiffers, FrontSettings, connections, rewrite
from tests.launch.fronts import rendered

_FILES_MAX = 1 << 20


def told(
    host: str | None = None,
    websocket_port: int | None = None,
    edge_folder: str | None = None,
    trusted_proxies: tuple[str, ...] = (),
    has_spare: bool = False,
    **settings: int,
) -> FrontSettings:
    return FrontSettings(
        haproxy="/haproxy",
        pages="/run/pages",
        token="t" * 32,
        host=host,
        websocket_port=websocket_port,
        edge_folder=edge_folder,
        connections_max=settings.get("connections_max", 8_192),
        request_seconds_max=settings.get("request_seconds_max", 5),
        grpc_requests_per_address=settings.get("grpc_requests_per_address", 500),
        trusted_proxies=trusted_proxies,
        has_spare=has_spare,
    )


@pytest.fixture
def by_serve(tmp_path: Path) -> str:
    return rendered(tmp_path, 8080, 9000, 8404, 9101).read_text(encoding="utf-8")


def section(text: str, first_line: str) -> list[str]:
    lines = iter(text.splitlines())
    for line in lines:
        if line == first_line:
            break
    found = []
    for line in lines:
        if line and not line[0].isspace():
            break
        found.append(line.strip())
    return found


def binds(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.split()[:1] == ["bind"]]


@pytest.mark.threat(58)
def test_only_the_front_itself_is_open_to_others(by_serve: str) -> None:
    """Threat 58: figures and the admin socket are for this machine, and for this user, alone."""
    assert "bind *:8404" in by_serve
    assert "bind :9101" in by_serve, "Serve closes them by itself now: the rule can go"
    text = rewrite(by_serve, told(host="0.0.0.0"), _FILES_MAX)
    assert binds(text) == ["bind 127.0.0.1:9101", "bind 0.0.0.0:8080 proto h1", "bind 127.0.0.1:8404"]
    assert "mode 666" not in text
    assert "mode 600 level admin" in text


@pytest.mark.parametrize(
    ("host", "bound"),
    [
        (None, "127.0.0.1:8080 proto h1"),
        ("192.0.2.7", "192.0.2.7:8080 proto h1"),
        ("::", "[::]:8080 v4v6 proto h1"),
        ("2001:db8::1", "[2001:db8::1]:8080 proto h1"),
    ],
)
def test_the_front_listens_where_the_settings_say(by_serve: str, host: str | None, bound: str) -> None:
    """Serve gives its replicas the same address, so it is told the loopback one; the front alone is open."""
    assert f"bind {bound}" in binds(rewrite(by_serve, told(host), _FILES_MAX))


def test_the_port_for_websockets_is_a_second_door_of_the_same_front(by_serve: str) -> None:
    """Threats 45 to 49 hold for it too: it is a line in the frontend of HTTP, and HTTP/2 stays out."""
    one = section(rewrite(by_serve, told("::"), _FILES_MAX), "frontend http_frontend")
    two = section(rewrite(by_serve, told("::", websocket_port=8081), _FILES_MAX), "frontend http_frontend")
    assert [line for line in two if line not in one] == ["bind [::]:8081 v4v6 proto h1"]
    assert [line for line in one if line not in two] == []


def test_the_edge_connects_on_a_socket_of_this_user(tmp_path: Path) -> None:
    """Threat 49: only there is an address believed that the other side tells; no port takes one."""
    by_serve = rendered(tmp_path, 8080, 9000, 8404, 9101, grpc_replica_port=9001).read_text(encoding="utf-8")
    text = rewrite(by_serve, told("0.0.0.0", edge_folder="/run/f"), _FILES_MAX)
    takes_addresses = [line for line in binds(text) if "accept-proxy" in line]
    assert takes_addresses == [
        "bind unix@/run/f/edge-http.sock mode 600 accept-proxy proto h1",
        "bind unix@/run/f/edge-grpc.sock mode 600 accept-proxy proto h2",
    ]
    assert takes_addresses[0] in section(text, "frontend http_frontend")
    assert takes_addresses[1] in section(text, "frontend grpc_frontend")
    assert "accept-proxy" not in rewrite(by_serve, told("0.0.0.0"), _FILES_MAX)


@pytest.mark.threat(35)
def test_a_proxy_of_the_operators_has_no_limit_of_grpc_calls(tmp_path: Path) -> None:
    """Threat 35: everybody comes from its address; without such a proxy every address has the limit."""
    by_serve = rendered(tmp_path, 8080, 9000, 8404, 9101, grpc_replica_port=9001).read_text(encoding="utf-8")
    limits = []
    for proxies in ((), ("10.0.0.0/8", "2001:db8::/32")):
        lines = section(rewrite(by_serve, told(trusted_proxies=proxies), _FILES_MAX), "frontend grpc_frontend")
        limits += [line.partition(" if ")[2] for line in lines if "too many calls" in line]
        assert ("acl from_a_trusted_proxy src 10.0.0.0/8 2001:db8::/32" in lines) is bool(proxies)
    assert limits == ["{ sc0_http_req_rate gt 1000 }", "{ sc0_http_req_rate gt 1000 } !from_a_trusted_proxy"]


def test_every_page_of_haproxy_is_ours(by_serve: str) -> None:
    """Interface, "HTTP statuses and bodies": Serve turns 502, 503 and 504 into 500 as plain text."""
    text = rewrite(by_serve, told(), _FILES_MAX)
    assert "500.http" in by_serve
    pages = [line for line in section(text, "defaults") if line.startswith("errorfile")]
    assert pages == [f"errorfile {code} /run/pages/{code}.http" for code in front_config.PAGE_CODES]
    replies = [line for line in text.splitlines() if "http-request return status" in line and "text/plain" in line]
    assert all("status 200" in line for line in replies), "only the health check's yes is plain text"


def test_no_request_line_reaches_a_log(by_serve: str) -> None:
    """Threat 9: an API key in a URL is in no log; HAProxy's own would have it."""
    assert "option httplog" in by_serve
    text = rewrite(by_serve, told(), _FILES_MAX)
    assert not [line for line in section(text, "global") if line.startswith("log ")]
    assert "log global" not in text and "httplog" not in text


@pytest.mark.threat(48)
def test_a_request_has_its_time(by_serve: str) -> None:
    """Threat 48: one limit for the head and the beginning of the body; no time limit of Serve's is left."""
    text = rewrite(by_serve, told(request_seconds_max=7), _FILES_MAX)
    limits = [line for line in section(text, "defaults") if line.startswith("timeout")]
    assert "timeout http-request 7s" in limits
    assert sorted(limits) == sorted({line.split()[1]: line for line in limits}.values()), "one of each kind"
    assert "option http-buffer-request" in section(text, "frontend http_frontend")


def test_serves_own_proxy_takes_no_calls(by_serve: str) -> None:
    """It queues without bound when no replica is up; the front says 503 at once."""
    assert "check backup" in by_serve
    assert "backup" not in rewrite(by_serve, told(), _FILES_MAX)


@pytest.mark.parametrize("has_spare", [True, False])
def test_the_second_replica_is_a_spare_where_one_is_wanted(tmp_path: Path, has_spare: bool) -> None:
    """A spare gets no call while the first replica lives; where all replicas are to work, none is a spare."""
    by_serve = rendered(tmp_path, 8080, 9000, 8404, 9101, grpc_port=8082, second_port=9001).read_text("utf-8")
    text = rewrite(by_serve, told(has_spare=has_spare), _FILES_MAX)
    for backend in ("backend http-app", "backend grpc-app"):
        servers = [line for line in section(text, backend) if line.startswith("server ")]
        assert [line.endswith(" backup") for line in servers] == [False, has_spare]


def test_a_busy_replica_has_time_for_a_health_check(tmp_path: Path) -> None:
    """Without a limit of its own HAProxy takes the pause between two checks (1 s), in which a busy loop may not answer.
    A check of a dead replica ends at once. The same for HTTP and gRPC."""
    text = rewrite(rendered(tmp_path, 8080, 9000, 8404, 9101, grpc_port=8082).read_text("utf-8"), told(), _FILES_MAX)
    for backend in ("backend http-app", "backend grpc-app"):
        assert section(text, backend).count("timeout check 3s") == 1


def test_what_was_sent_to_a_lost_machine_fails_soon(by_serve: str) -> None:
    """A machine that is cut off answers nothing, and a call that was sent to it would wait for the longest answer."""
    lines = section(rewrite(by_serve, told(), _FILES_MAX), "defaults")
    assert {"option srvtcpka", "srvtcpka-idle 1s", "srvtcpka-intvl 1s", "srvtcpka-cnt 3"} <= set(lines)
    assert "default-server tcp-ut 4s" in lines


def test_only_a_refused_connection_is_tried_again(by_serve: str) -> None:
    """No byte of a paid call reaches two replicas: another one is tried when the connection could not be made, and not
    when a replica broke off."""
    lines = section(rewrite(by_serve, told(), _FILES_MAX), "defaults")
    assert [line for line in lines if line.startswith(("retry-on", "option redispatch"))] == [
        *("option redispatch 1", "retry-on conn-failure"),
    ]


def test_the_front_says_under_one_name_who_its_peer_is(by_serve: str) -> None:
    """The replica reads what the front writes."""
    assert front_config.FRONT_HEADER.encode() == client_addresses.FRONT_HEADER
    written = f'http-request set-header {front_config.FRONT_HEADER} "{"t" * 32} %[src]"'
    assert written in section(rewrite(by_serve, told(), _FILES_MAX), "frontend http_frontend")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("mode 666", "mode 777", "stats socket"),
        ("\n    log ", "\n    logs ", "log"),
        ("maxconn ", "maxconnections ", "maxconn"),
        ("errorfile 503", "errorfiles 503", "errorfile"),
        ("frontend prometheus", "frontend figures", "frontend prometheus"),
        ("bind :9101", "bind 0.0.0.0:9101", "bind"),
        ("listen stats", "listen statistics", "listen stats"),
        ("bind 127.0.0.1:8080", "bind 127.0.0.1:8080 ssl crt /x", "bind"),
        ("backend default_backend", "listen more\n  bind *:7000\nbackend default_backend", "bind *:7000"),
        ("stats timeout", "stats socket /x.sock mode 660 level admin\n    stats timeout", "stats socket"),
        ("frontend http_frontend", "frontend more\n    bind *:7000\nfrontend http_frontend", "bind *:7000"),
    ],
)
def test_a_serve_that_renders_something_else_is_refused(by_serve: str, old: str, new: str, where: str) -> None:
    """Half of the rules would be worse than none: the text names the line, and nothing is started."""
    changed = by_serve.replace(old, new)
    assert changed != by_serve
    with pytest.raises(ConfigurationDiffers) as error:
        rewrite(changed, told(), _FILES_MAX)
    assert where.split()[0] in str(error.value)


def test_the_front_takes_as_many_connections_as_its_files_allow() -> None:
    """HAProxy does not start when it is told more than the limit of open files has room for."""
    assert connections(8_192, 1 << 20) == 8_192
    assert connections(8_192, 20_000) == 7_500
    assert connections(1_000, 20_000) == 1_000
    with pytest.raises(ConfigurationDiffers, match="ulimit -n"):
        connections(8_192, 1_024)
    assert connections(8_192, 500 + int(2.6 * CONNECTIONS_MIN) + 1) == CONNECTIONS_MIN


def test_a_configuration_is_changed_once(by_serve: str) -> None:
    """Serve writes it anew each time; a second change would find nothing to replace."""
    with pytest.raises(ConfigurationDiffers):
        rewrite(rewrite(by_serve, told(), _FILES_MAX), told(), _FILES_MAX)


def test_grpc_has_the_rules_of_http_and_no_way_around_the_replicas(tmp_path: Path) -> None:
    """The front names its peer there too; the proxy of Serve itself takes no calls, and names no applications."""
    by_serve = rendered(tmp_path, 8080, 9000, 8404, 9101, grpc_port=8082).read_text(encoding="utf-8")
    assert "use_backend grpc_fallback_backend" in by_serve and by_serve.count("check backup") == 2
    text = rewrite(by_serve, told(host="0.0.0.0"), _FILES_MAX)
    frontend = section(text, "frontend grpc_frontend")
    assert frontend[2] == "bind 0.0.0.0:8082 proto h2"
    assert f'http-request set-header {front_config.FRONT_HEADER} "{"t" * 32} %[src]"' in frontend
    assert any("sc0_conn_cur" in line for line in frontend)
    assert "use_backend grpc_fallback_backend" not in text and "check backup" not in text
    assert any("is_list_applications" in line and "grpc-status 12" in line for line in frontend)
    for lines in (frontend, section(text, "backend grpc-app")):
        pages = [line for line in lines if line.startswith("errorfile")]
        assert pages == [f"errorfile {code} /run/pages/grpc-{code}.http" for code in front_config.PAGE_CODES]
    assert "tune.h2.be.max-concurrent-streams 1" in section(text, "global")
    assert [rpc.path for rpc in api.RPCS if rpc.is_stream] == [*front_config.GRPC_STREAMS]


def test_a_grpc_call_before_the_replicas_are_known_is_told_to_come_again(tmp_path: Path) -> None:
    """After a start of the head its controller names no application for a second, and Serve's HAProxy then answers
    NOT_FOUND, which no client asks again."""
    ports = rendered(tmp_path, 8080, 9000, 8404, 9101, grpc_port=8082).read_text(encoding="utf-8")
    whole = haproxy_templates.HAPROXY_CONFIG_TEMPLATE
    nobody = whole[whole.rindex("backend default_grpc_backend") :].partition("{%")[0]
    assert nobody.count("grpc-status 5") == 2
    lines = section(rewrite(ports + nobody, told(), _FILES_MAX), "backend default_grpc_backend")
    answers = [line for line in lines if "return" in line]
    assert len(answers) == 2 and all("grpc-status 14" in line and "try again" in line for line in answers)
