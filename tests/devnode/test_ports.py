"""Sockets are taken for real here: what the system says of a port is what is tested."""

import logging
import socket
from collections.abc import Iterator

import pytest

from devnode.ports import PortTaken, address_text, open_ports, open_udp, port_of

HOST = "127.0.0.1"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two neighbouring ports, the lower one first, both taken."""
    first, second = open_ports(HOST, 0, None)
    yield first, second
    first.close()
    second.close()


def closed(sockets: list[socket.socket]) -> list[int]:
    ports = [port_of(one) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def test_free_ports_are_neighbours(pair: tuple[socket.socket, socket.socket]) -> None:
    """web3.js 1.x adds one to the port of the URL it is given."""
    first, second = pair
    assert port_of(second) == port_of(first) + 1


def test_the_port_above_is_the_second_one(pair: tuple[socket.socket, socket.socket]) -> None:
    """The default, on a port that was chosen."""
    port = closed(list(pair))[0]
    assert closed(open_ports(HOST, port, None)) == [port, port + 1]


def test_a_taken_port_above_is_done_without_and_named(
    pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    """WebSockets are served on the HTTP port too, so a neighbour's program is no reason not to start."""
    first, _second = pair
    port = port_of(first)
    first.close()
    with caplog.at_level(logging.WARNING, logger="devnode"):
        assert closed(open_ports(HOST, port, None)) == [port]
    (record,) = caplog.records
    assert f"cannot listen on {HOST}:{port + 1}" in record.getMessage()
    assert "give another --ws-port" in record.getMessage() and f"port {port} only" in record.getMessage()


@pytest.mark.parametrize("host", ["no host", "192.0.2.1"])
def test_a_host_that_is_not_here_is_not_blamed_on_the_port(host: str) -> None:
    """A name that means nothing, and an address that no interface has."""
    with pytest.raises(PortTaken, match="give another --host"):
        open_ports(host, 0, None)
    with pytest.raises(PortTaken, match="give another --host"):
        open_udp(host, 0, "--tpu-port")


def test_an_ipv6_address_stands_in_brackets() -> None:
    """Else nobody could tell where it ends and the port begins, and no client takes such a URL."""
    assert address_text("127.0.0.1", 8899) == "127.0.0.1:8899"
    assert address_text("::1", 8899) == "[::1]:8899"


def test_a_taken_port_that_was_asked_for_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    """Whoever names a port wants that one; the HTTP port is given back."""
    first, _second = pair
    port = port_of(first)
    first.close()
    with pytest.raises(PortTaken, match=rf"{port + 1} .*give another --ws-port"):
        open_ports(HOST, port, port + 1)
    with socket.socket() as again:
        again.bind((HOST, port))


def test_a_taken_http_port_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    """The text names the flag that changes it."""
    with pytest.raises(PortTaken, match="give another --http-port"):
        open_ports(HOST, port_of(pair[0]), None)


def test_the_http_port_as_second_port_means_none(pair: tuple[socket.socket, socket.socket]) -> None:
    """The way to have one port only."""
    port = closed(list(pair))[0]
    assert closed(open_ports(HOST, port, port)) == [port]


def test_a_free_second_port_may_be_anywhere() -> None:
    """0 is a free port, as for --http-port."""
    ports = closed(open_ports(HOST, 0, 0))
    assert len(set(ports)) == 2
