"""Replicas stay in rotation while Serve names none, and leave it as soon as Serve names others."""

from hypothesis import given
from hypothesis import strategies as st

from actors.launch.front.last_servers import servers_of, with_servers

NONE = "defaults\n    mode http\nbackend http-a\n    http-reuse always\nbackend other\n"
BOTH = NONE.replace("always\n", "always\n    server r1 10.0.0.1:30000 check\n")


def test_a_backend_without_a_server_keeps_those_that_it_had() -> None:
    assert servers_of(BOTH) == {"backend http-a": ["    server r1 10.0.0.1:30000 check"]}
    kept = with_servers(NONE, servers_of(BOTH))
    assert servers_of(kept) == servers_of(BOTH)
    assert sorted(kept.splitlines()) == sorted(BOTH.splitlines())


def test_a_backend_with_servers_has_only_those_that_serve_names() -> None:
    """A replica that was replaced must not come back."""
    renamed = BOTH.replace("r1 10.0.0.1", "r2 10.0.0.2")
    assert with_servers(renamed, servers_of(BOTH)) == renamed


def test_a_backend_that_is_gone_stays_gone() -> None:
    assert with_servers("defaults\n    mode http\n", servers_of(BOTH)) == "defaults\n    mode http\n"


names = st.sampled_from(["a", "b", "c"])
backends = st.dictionaries(names, st.lists(names, unique=True, max_size=3), max_size=3)


def text_of(servers: dict[str, list[str]]) -> str:
    parts = (f"backend {name}\n" + "".join(f"    server {s} x check\n" for s in some) for name, some in servers.items())
    return "global\n" + "".join(parts)


@given(before=backends, now=backends)
def test_each_backend_has_its_own_servers_or_its_last_ones(
    before: dict[str, list[str]], now: dict[str, list[str]]
) -> None:
    wanted = {name: some or before.get(name, []) for name, some in now.items()}
    found = servers_of(with_servers(text_of(now), servers_of(text_of(before))))
    assert found == servers_of(text_of(wanted))
