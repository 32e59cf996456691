"""The edge's configuration; what it does to real clients is in test_edge.py."""

import dataclasses

import pytest

from actors.launch.front.config import PAGE_CODES
from actors.launch.front.tls_edge_config import EdgeSettings, render

SETTINGS = EdgeSettings(
    host="::",
    port=8443,
    certificate="/run/f/edge.pem",
    folder="/run/f",
    pages="/run/f/pages",
    connections_max=8_192,
    request_seconds_max=5,
    threads=1,
    trusted_proxies=(),
)


def lines(settings: EdgeSettings = SETTINGS) -> list[str]:
    return [line.strip() for line in render(settings).splitlines()]


@pytest.mark.threat(58)
def test_one_port_is_open_and_it_speaks_tls_alone() -> None:
    """Threat 58: the admin socket is this user's; no listener takes an address that a client tells."""
    opened = [line for line in lines() if line.startswith(("bind", "stats socket"))]
    assert opened == [
        "stats socket /run/f/edge-admin.sock mode 600 level admin",
        "bind [::]:8443 v4v6 ssl crt /run/f/edge.pem alpn h2,http/1.1",
    ]
    assert "ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets" in lines()


@pytest.mark.threat(49)
def test_forwarding_headers_pass_from_trusted_proxies_only() -> None:
    """Threat 49: by default nobody's; a proxy that the settings name keeps them."""
    named = ("10.0.0.0/8", "2001:db8::/32")
    assert "http-request del-header x-forwarded-for" in lines()
    trusting = lines(dataclasses.replace(SETTINGS, trusted_proxies=named))
    assert "acl from_a_trusted_proxy src 10.0.0.0/8 2001:db8::/32" in trusting
    assert "http-request del-header x-forwarded-for unless from_a_trusted_proxy" in trusting
    assert "http-request del-header x-forwarded-for" not in trusting


def test_every_status_has_the_interfaces_page() -> None:
    """Interface, "HTTP statuses and bodies"; calls of gRPC have pages of their own."""
    found = lines()
    pages = [line for line in found[: found.index("frontend edge")] if line.startswith("errorfile")]
    assert pages == [f"errorfile {code} /run/f/pages/{code}.http" for code in PAGE_CODES]
    pages = [line for line in found[found.index("backend edge_grpc") :] if line.startswith("errorfile")]
    assert pages == [f"errorfile {code} /run/f/pages/grpc-{code}.http" for code in PAGE_CODES]


@pytest.mark.threat(48)
def test_the_limits_are_those_of_the_front() -> None:
    """Threats 35 and 48: the time for a request, and an eighth of three quarters for one address."""
    found = lines(dataclasses.replace(SETTINGS, connections_max=256, request_seconds_max=7))
    assert "timeout http-request 7s" in found
    assert "tcp-request connection reject if { fe_conn gt 192 } { sc0_conn_cur gt 32 }" in found
    assert "http-request deny deny_status 429 if { be_conn(edge_http) gt 192 } { sc1_conn_cur gt 32 }" in found
    assert found.index("option http-buffer-request") > found.index("backend edge_http"), "not for gRPC"
