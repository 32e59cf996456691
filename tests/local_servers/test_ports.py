"""Ports that are free, and ports that are not."""

import os
import socket

import pytest

from actors.local_servers import ports


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
    ports.require_free_port("127.0.0.1", 0, "HTTP", "--http-port")


def test_the_text_names_the_holder_and_the_setting() -> None:
    """Who has it, what it is wanted for, and what to change."""
    with listener() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ports.PortTaken) as caught:
            ports.require_free_port("127.0.0.1", port, "HTTP", "--http-port")
    text = str(caught.value)
    assert f"127.0.0.1:{port}" in text
    assert f"(process {os.getpid()})" in text
    assert "HTTP" in text
    assert "--http-port" in text


def test_an_address_of_another_machine_is_told() -> None:
    """192.0.2.1 is nobody's: documentation has it."""
    with pytest.raises(ports.PortTaken, match="cannot listen there for HTTP"):
        ports.require_free_port("192.0.2.1", 8080, "HTTP", "--http-port")
