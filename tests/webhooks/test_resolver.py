"""The guard at the moment of the connection, against a DNS server of the test's own. Threat 26."""

from collections.abc import AsyncIterator

import pytest

from actors.webhooks.resolver import GuardedResolver, GuardRefused, HostUnknown
from actors.webhooks.targets import EgressRules

from .outside import NameServer, name_server

PUBLIC, PUBLIC_V6 = "93.184.215.14", "2606:4700:4700::1111"


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    async with name_server() as server:
        yield server


def resolver(names: NameServer, rules: EgressRules | None = None) -> GuardedResolver:
    return GuardedResolver(rules or EgressRules(), [names.address])


async def test_both_families_are_asked_once_and_given_whole(names: NameServer) -> None:
    names.records = {("a.example", "A"): [PUBLIC], ("a.example", "AAAA"): [PUBLIC_V6]}
    found = await resolver(names).resolve("a.example", 443)
    assert [(each["host"], each["port"]) for each in found] == [(PUBLIC, 443), (PUBLIC_V6, 443)]
    assert sorted(names.asked) == [("a.example", "A"), ("a.example", "AAAA")]


@pytest.mark.parametrize(
    ("a", "aaaa"),
    [
        (["127.0.0.1"], []),
        ([PUBLIC, "10.0.0.1"], []),
        ([PUBLIC], ["::1"]),
        ([], ["::ffff:169.254.169.254"]),
        ([PUBLIC], ["64:ff9b::a9fe:a9fe"]),
        (["169.254.169.254"], [PUBLIC_V6]),
    ],
)
@pytest.mark.threat(26)
async def test_one_inner_address_among_public_ones_refuses_the_host(
    names: NameServer, a: list[str], aaaa: list[str]
) -> None:
    """Threat 26: A=public with AAAA=::1 and its like; whichever the client would have tried first."""
    names.records = {("a.example", "A"): a, ("a.example", "AAAA"): aaaa}
    with pytest.raises(GuardRefused, match="egress guard"):
        await resolver(names).addresses("a.example")


async def test_names_without_addresses_and_dead_servers_are_told_apart_from_refusals(names: NameServer) -> None:
    with pytest.raises(HostUnknown, match="no address"):
        await resolver(names).addresses("nothing.example")
    names.silent = True
    slow = resolver(names)
    slow._resolver.lifetime = 0.2
    with pytest.raises(HostUnknown, match="cannot be looked up"):
        await slow.addresses("a.example")


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example", "é.example", "a" * 300 + ".example"])
@pytest.mark.threat(26)
async def test_labels_that_are_too_long_are_unknown_hosts(names: NameServer, host: str) -> None:
    """getaddrinfo raises UnicodeError here; nothing of that kind may reach the dispatcher."""
    with pytest.raises(HostUnknown):
        await resolver(names).addresses(host)


async def test_addresses_are_not_looked_up_and_are_guarded_all_the_same(names: NameServer) -> None:
    assert await resolver(names).addresses(PUBLIC) == [PUBLIC]
    for text in ("127.0.0.1", "::1", "169.254.169.254"):
        with pytest.raises(GuardRefused):
            await resolver(names).addresses(text)
    assert await resolver(names, EgressRules(allow_loopback=True)).addresses("localhost") == ["127.0.0.1"]
    assert names.asked == []
