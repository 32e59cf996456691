"""Which leaders get a transaction: the present one and the next, each once, and those with a port alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.sends.leaders import Schedule, is_private_host, next_leaders, ports_of

PORTS = {"a": ("10.0.0.1", 1), "b": ("10.0.0.2", 2), "c": ("10.0.0.3", 3)}
SCHEDULE = Schedule(100, ("a",) * 4 + ("b",) * 4 + ("a",) * 4 + ("c",) * 4 + ("d",) * 4, PORTS)


@pytest.mark.parametrize(
    ("slot", "count", "leaders"),
    [
        (100, 2, "ab"),
        (102, 2, "ab"),
        (103, 2, "abc"),  # The last of its four: the bytes may come too late for it.
        (104, 2, "ba"),
        (104, 1, "b"),
        (112, 2, "c"),
        (116, 2, ""),  # It has no port.
        (90, 1, "a"),
        (500, 2, ""),
    ],
)
def test_the_present_leader_and_the_next_are_taken(slot: int, count: int, leaders: str) -> None:
    assert next_leaders(SCHEDULE, slot, count) == tuple(PORTS[name] for name in leaders)


def test_a_schedule_is_old_before_it_ends() -> None:
    assert SCHEDULE.covers(100) is False  # 20 slots are left, wanted are 24.
    longer = Schedule(100, ("a",) * 64, PORTS)
    assert [longer.covers(slot) for slot in (99, 100, 140, 141)] == [False, True, True, False]


def test_ports_are_read_from_what_a_node_tells() -> None:
    """Today's nodes tell tpuQuic; old ones a UDP port, with QUIC six above it; rubbish is passed over."""
    rows: list[dict[str, object]] = [
        {"pubkey": "a", "tpuQuic": "10.0.0.1:8009", "tpu": None},
        {"pubkey": "b", "tpuQuic": None, "tpu": "10.0.0.2:8003"},
        {"pubkey": "c", "tpuQuic": "[::1]:8009"},
        {"pubkey": "d", "tpuQuic": "8009"},
        {"pubkey": "e", "tpuQuic": "10.0.0.1:99999"},
        {"pubkey": "f", "tpuQuic": None},
        {"tpuQuic": "10.0.0.1:8009"},
        {"pubkey": "g", "tpuQuic": "leader.example.com:8009"},
        {"pubkey": "h", "tpuQuic": "169.254.169.254:8009"},
        {"pubkey": "i", "tpuQuic": "239.1.2.3:8009"},
        {"pubkey": "j", "tpuQuic": "0.0.0.0:8009"},
        {"pubkey": "k", "tpuQuic": "10.0.0.1:" + "1" * 5_000},
        {"pubkey": "l", "tpuQuic": "10.0.0.1:53"},
    ]
    assert ports_of(rows, private=True) == {"a": ("10.0.0.1", 8009), "b": ("10.0.0.2", 8009), "c": ("::1", 8009)}


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "10.0.0.1", "192.168.0.9", "172.16.0.1", "100.64.0.1", "169.254.169.254", "192.0.2.1"),
        *("[::1]", "[fd00::1]", "[fe80::1]", "[::ffff:127.0.0.1]", "[::ffff:8.8.8.8]", "[64:ff9b::7f00:1]"),
        *("[2002:7f00:1::]", "[2001:0:808:808::1]", "255.255.255.255"),
    ],
)
def test_a_stranger_cannot_send_packets_into_a_private_network(host: str) -> None:
    """Anyone may announce any address to the cluster, and the node repeats it."""
    rows = [{"pubkey": "a", "tpuQuic": f"{host}:8009"}, {"pubkey": "b", "tpuQuic": "8.8.8.8:8009"}]
    assert ports_of(rows) == {"b": ("8.8.8.8", 8009)}


@pytest.mark.parametrize(
    ("host", "private"),
    [
        *((host, True) for host in ("127.0.0.1", "localhost", "10.1.2.3", "::1")),
        *((host, False) for host in ("8.8.8.8", "", "api.mainnet-beta.solana.com")),
    ],
)
def test_a_node_at_a_private_address_is_told_from_its_url(host: str, private: bool) -> None:
    assert is_private_host(host) is private


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(("pubkey", "tpuQuic", "tpu")),
            st.none()
            | st.integers()
            | st.text()
            | st.lists(st.text())
            | st.sampled_from(("[::]:1", ":", "1.2.3.4:-1")),
        )
    )
)
def test_whatever_nodes_announce_is_read(rows: list[dict[str, object]]) -> None:
    """One row that cannot be read must not cost the leg all leaders."""
    for host, port in ports_of([*rows, {"pubkey": "good", "tpuQuic": "8.8.8.8:8009"}]).values():
        assert is_private_host(host) is False and 1_024 <= port < 65_536
