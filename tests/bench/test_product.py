"""How the whole product is started for measurements and tests; the start itself is in tests/cluster."""

import socket

import pytest

from bench.product import Ports, command, environment, free_ports


def test_the_ports_of_a_run_do_not_overlap() -> None:
    """Doors above what the cluster takes for itself, all within the thousand."""
    ports = Ports(20_000)
    own = {ports.http, ports.http + 1, ports.grpc, ports.tls, *range(ports.devnode, ports.devnode + 4)}
    assert len(own) == 8
    assert all(20_900 < port < 21_000 for port in own)
    assert set(ports.settings().values()) == {"20000", "20950", "20952", "20953", "20957"}


def test_a_range_in_use_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another product's range, also while that one does not run, and one in which anything else listens."""
    anothers, free = free_ports(), free_ports()
    with socket.socket() as taken:
        in_use = free_ports().first
        taken.bind(("127.0.0.1", in_use + 5))
        taken.listen()
        firsts = iter((anothers.first, in_use, in_use, free.first))
        expected = free.first
        del free
        monkeypatch.setattr("bench.product.random.randrange", lambda *_: next(firsts))
        assert free_ports().first == expected


def test_settings_of_the_product_in_our_environment_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement is of what it says, whatever the shell it was started from had set."""
    monkeypatch.setenv("LEDGER_ACCOUNTS__CONCURRENCY", "1")
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/")
    found = environment({"LEDGER_GATEWAY__REPLICAS": "3"})
    assert "LEDGER_ACCOUNTS__CONCURRENCY" not in found
    assert "DATABASE_URL" not in found
    assert found["LEDGER_GATEWAY__REPLICAS"] == "3"


def test_the_command_can_be_run_without_assertions() -> None:
    """For showing that it then refuses."""
    assert command(optimise=True)[1] == "-O"
    assert "-O" not in command()
