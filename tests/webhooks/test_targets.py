"""Threat 26, the spellings: what the guard refuses by the text of a URL, and by an address."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.webhooks.targets import EgressRules, address_fault, url_fault

RULES = EgressRules(own_hosts=("rpc.example.com",))
DEVELOPMENT = EgressRules(allow_loopback=True)

REFUSED_URLS = """
http://example.com/
ftp://example.com/
https:/example.com
//example.com/
https://
https://example
https://example.com:6379/
https://example.com:22/
https://example.com:/
https://example.com:443x/
https://example.com:99999/
https://user@example.com/
https://user:pass@example.com/
https://@example.com/
https://example.com@127.0.0.1/
https://example.com/#fragment
https://example.com#@127.0.0.1/
https://example.com\\@127.0.0.1/
https://exa mple.com/
https://example.com/\tpath
https://example.com./
https://.example.com/
https://exa..mple.com/
https://-example.com/
https://bücher.example/
https://ⓔxample.com/
https://127。0。0。1/
https://１２７.0.0.1/
https://localhost/
https://foo.localhost/
https://LOCALHOST/
https://metadata.google.internal/
https://metadata.google.internal./
https://printer.local/
https://router.lan/
https://x.home.arpa/
https://rpc.example.com/
https://RPC.example.com/
https://127.0.0.1/
https://127.0.0.1:443/
https://127.1/
https://127.0.1/
https://0/
https://0.0.0.0/
https://2130706433/
https://0x7f000001/
https://0x7f.0.0.1/
https://0177.0.0.1/
https://0177.0.0.01/
https://00000177.0.0.1/
https://127.0.0.0x1/
https://3232235521/
https://10.0.0.1/
https://172.16.5.4/
https://172.31.255.255/
https://192.168.1.1/
https://100.64.0.1/
https://169.254.169.254/
https://168.63.129.16/
https://192.0.0.192/
https://192.88.99.1/
https://198.18.0.1/
https://203.0.113.5/
https://224.0.0.1/
https://255.255.255.255/
https://240.0.0.1/
https://1.2.3.4.5/
https://1.2.3/
https://999.1.1.1/
https://[::1]/
https://[::]/
https://[::ffff:169.254.169.254]/
https://[::ffff:7f00:1]/
https://[::ffff:8.8.8.8]/
https://[::ffff:0:127.0.0.1]/
https://[::169.254.169.254]/
https://[2002:7f00:1::]/
https://[2002:a9fe:a9fe::1]/
https://[64:ff9b::a9fe:a9fe]/
https://[64:ff9b::127.0.0.1]/
https://[64:ff9b:1::1]/
https://[2001::1]/
https://[2001:0:53aa:64c:0:0:f5ff:fffe]/
https://[2001:db8::1]/
https://[3fff::1]/
https://[5f00::1]/
https://[fe80::1]/
https://[fe80::1%25eth0]/
https://[fec0::1]/
https://[fc00::1]/
https://[fd12:3456::1]/
https://[ff02::1]/
https://[100::1]/
https://[::1/
https://[v1.x]/
https://[127.0.0.1]/
https://[2606:4700:4700::1111]x/
https://[2606:4700:4700::1111].example.com/
https://example.com:0443/
https://example.com:+443/
https://%31%32%37.0.0.1/
https://127.0.0.1%2f@example.com/
https://example.com%00.example.org/
https:///example.com/
https:example.com
""".strip().splitlines()


@pytest.mark.parametrize(
    "url", [*REFUSED_URLS, "https://example.com/" + "a" * 2_048, "", "https://" + "a" * 300 + ".com/"]
)
@pytest.mark.threat(26)
def test_refused_at_once(url: str) -> None:
    """Threat 26: every spelling, before anything is looked up."""
    assert url_fault(url, RULES) is not None


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "https://example.com:443/hook?a=1&b=%20",
        "https://a-b.example.co.uk:8443/x/y",
        "https://xn--bcher-kva.example/",
        "HTTPS://Example.COM/",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]/",
    ],
)
def test_public_urls_are_let_through(url: str) -> None:
    """A guard that refuses everything guards nothing."""
    assert url_fault(url, RULES) is None


def test_the_development_switch_lets_this_machine_through_and_nothing_else() -> None:
    """Documented, for runs against the embedded chain."""
    for url in ("http://127.0.0.1:9000/hook", "http://localhost:9000/", "https://127.0.0.1/", "http://[::1]:1/"):
        assert url_fault(url, DEVELOPMENT) is None
        assert url_fault(url, RULES) is not None
    for url in ("http://example.com/", "https://10.0.0.1/", "http://169.254.169.254/", "https://example.com:6379/"):
        assert url_fault(url, DEVELOPMENT) is not None
    assert address_fault("127.0.0.1", DEVELOPMENT) is None


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_that_is_let_through_is_global(number: int) -> None:
    """Our list holds all that the standard library's has."""
    address = ipaddress.IPv4Address(number)
    if address_fault(str(address), RULES) is None:
        assert address.is_global and not address.is_multicast


@given(st.one_of(st.integers(0, 2**128 - 1), st.integers(0x2000 << 112, (0x4000 << 112) - 1)))
def test_an_ipv6_address_that_is_let_through_is_global_and_holds_no_ipv4(number: int) -> None:
    address = ipaddress.IPv6Address(number)
    if address_fault(str(address), RULES) is None:
        assert address.is_global and not address.is_multicast
        assert address.ipv4_mapped is None and address.sixtofour is None and address.teredo is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000/hook", "https://localhost/", "http://[::1]:9000/"])
def test_a_local_run_names_the_setting_for_receivers_of_this_machine(url: str) -> None:
    """Refused all the same; a service with a public name says nothing of its operator's settings."""
    told = url_fault(url, EgressRules(own_hosts=("127.0.0.1",)))
    assert told is not None and "LEDGER_WEBHOOKS__ALLOW_LOOPBACK=true" in told
    assert "LEDGER" not in (url_fault(url, RULES) or "LEDGER") and url_fault(url, DEVELOPMENT) is None
