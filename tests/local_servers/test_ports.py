"""Ports that are free, and ports that are not."""

import os
import socket

import pytest

from actors.local_servers import ports
from actors.local_servers.ports import NeededPort


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_port_is_taken_while_somebody_listens() -> None:
    """Said before anything is started; free again once they are gone."""
    with listener() as taken:
        port = taken.getsockname()[1]
        assert not ports.port_is_free("127.0.0.1", port)
        assert not ports.port_is_free("0.0.0.0", port)
    assert ports.port_is_free("127.0.0.1", port)


def test_asking_leaves_nothing_behind() -> None:
    """The question may be asked twice, and the answer then used."""
    with listener() as taken:
        port = taken.getsockname()[1]
    assert ports.port_is_free("127.0.0.1", port)
    assert ports.port_is_free("127.0.0.1", port)
    socket.create_server(("127.0.0.1", port)).close()


def test_any_port_is_free() -> None:
    """Port 0 leaves the choice to the system."""
    ports.require_free_ports([NeededPort("127.0.0.1", 0, "HTTP", "--http-port")])


def test_a_line_for_each_setting_names_a_taken_port_and_its_holder() -> None:
    """Each line tells the process, the purpose and the setting; free ports have no line, and no setting has two."""
    with listener() as first, listener() as second:
        found = [first.getsockname()[1], second.getsockname()[1]]
        needed = [
            NeededPort("127.0.0.1", found[0], "HTTP", "--http-port"),
            NeededPort("127.0.0.1", 0, "TLS", "LEDGER_SERVE__TLS_PORT"),
            NeededPort("127.0.0.1", found[1], "gRPC", "LEDGER_SERVE__GRPC_PORT"),
            NeededPort("127.0.0.1", found[0], "gRPC too", "LEDGER_SERVE__GRPC_PORT"),
        ]
        with pytest.raises(ports.PortTaken) as caught:
            ports.require_free_ports(needed)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    for line, one in zip(lines, (needed[0], needed[2]), strict=True):
        assert line.startswith(f"127.0.0.1:{one.port}: taken by ")
        assert f"(process {os.getpid()})" in line
        assert f"needed for {one.purpose}:" in line
        assert one.setting in line


def test_an_address_of_another_machine_is_told() -> None:
    """192.0.2.1 is nobody's: documentation has it."""
    with pytest.raises(ports.PortTaken, match="cannot listen there for HTTP"):
        ports.require_free_ports([NeededPort("192.0.2.1", 8080, "HTTP", "--http-port")])
