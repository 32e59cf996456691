"""Single attempts against real receivers. Threats 26 and 27."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from actors.clock import SystemClock
from actors.webhooks.core import Attempt
from actors.webhooks.resolver import GuardedResolver
from actors.webhooks.sender import ANSWER_BYTES_MAX, WebhookSender
from actors.webhooks.targets import EgressRules

from .outside import Certificates, NameServer, Receiver, name_server, receiver

HOST, PUBLIC = "hooks.example.com", "93.184.215.14"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    async with name_server() as server:
        server.records[HOST, "A"] = ["127.0.0.1"]
        yield server


@pytest.fixture
async def target(certificates: Certificates) -> AsyncIterator[Receiver]:
    async with receiver(certificates.server(HOST)) as found:
        yield found


@pytest.fixture
async def sender(names: NameServer, certificates: Certificates, target: Receiver) -> AsyncIterator[WebhookSender]:
    """As in production, but for the receiver's port, and that the receiver may be on this machine."""
    rules = EgressRules(frozenset((target.port,)), allow_loopback=True)
    found = WebhookSender(rules, GuardedResolver(rules, [names.address]), SystemClock(), certificates.ca_file, 1.0)
    yield found
    await found.close()


@pytest.fixture
async def strict(names: NameServer, certificates: Certificates, target: Receiver) -> AsyncIterator[WebhookSender]:
    """Addresses of this machine are refused, as in production."""
    rules = EgressRules(frozenset((target.port,)))
    found = WebhookSender(rules, GuardedResolver(rules, [names.address]), SystemClock(), certificates.ca_file, 1.0)
    yield found
    await found.close()


async def post(sender: WebhookSender, target: Receiver, host: str = HOST) -> Attempt:
    return await sender.send(f"https://{host}:{target.port}/hook?a=%2F", {"X-Webhook-Id": "wh_1"}, b'{"a":1}')


async def test_a_delivery_arrives_byte_for_byte(sender: WebhookSender, target: Receiver) -> None:
    """Interface, "Webhook deliveries": the raw body; the URL's own escapes are kept."""
    attempt = await post(sender, target)
    assert (attempt.http_status, attempt.error, attempt.is_success) == (204, "", True)
    (delivered,) = target.delivered
    assert delivered.body == b'{"a":1}'
    assert delivered.headers["Content-Type"] == "application/json"
    assert delivered.headers["Host"] == f"{HOST}:{target.port}"


@pytest.mark.threat(26)
async def test_a_name_that_changes_after_its_check_gains_nothing(
    strict: WebhookSender, names: NameServer, target: Receiver
) -> None:
    """Rebinding: public when the webhook is created, this machine when it is delivered to. Nobody is connected to."""
    names.records[HOST, "A"] = [[PUBLIC], ["127.0.0.1"]]
    assert await strict.check(f"https://{HOST}:{target.port}/hook") is None
    attempt = await post(strict, target)
    assert attempt.http_status is None
    assert "egress guard" in attempt.error
    assert target.delivered == []


@pytest.mark.threat(26)
async def test_a_host_is_looked_up_once_for_a_connection(
    sender: WebhookSender, names: NameServer, target: Receiver
) -> None:
    """The address that was checked is the one that is connected to: a second answer is never asked for."""
    names.records[HOST, "A"] = [["127.0.0.1"], ["10.0.0.1"]]
    assert (await post(sender, target)).is_success
    assert sorted(names.asked) == [(HOST, "A"), (HOST, "AAAA")]


@pytest.mark.threat(26)
async def test_an_address_in_the_url_is_guarded_at_each_attempt(strict: WebhookSender, target: Receiver) -> None:
    """Also for a URL that was let through when the rules were others."""
    attempt = await post(strict, target, "127.0.0.1")
    assert "egress guard" in attempt.error
    assert target.delivered == []


@pytest.mark.threat(26)
async def test_redirects_are_not_followed(sender: WebhookSender, target: Receiver) -> None:
    """302 to a private address, or anywhere: it is the answer, and a failure."""
    target.answers(302, Location=f"https://{HOST}:{target.port}/inner")
    attempt = await post(sender, target)
    assert (attempt.http_status, attempt.is_success) == (302, False)
    assert len(target.delivered) == 1


@pytest.mark.threat(26)
async def test_checks_at_creation_say_why(strict: WebhookSender, names: NameServer, target: Receiver) -> None:
    names.records["two.example.com", "A"] = [PUBLIC]
    names.records["two.example.com", "AAAA"] = ["::1"]
    names.records["xn--bcher-kva.example", "A"] = [PUBLIC]
    assert await strict.check(f"https://xn--bcher-kva.example:{target.port}/") is None
    for host, words in (
        (HOST, "not on the public network"),
        ("two.example.com", "not on"),
        ("no.example.com", "no add"),
    ):
        fault = await strict.check(f"https://{host}:{target.port}/")
        assert fault is not None and words in fault


@pytest.mark.threat(27)
async def test_an_answer_without_end_is_cut(sender: WebhookSender, target: Receiver) -> None:
    """Threat 27, 10 GB reply: one kilobyte is kept, the connection is closed, and the delivery counts."""
    written, ended = 0, asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65_536)
                written += 65_536
        finally:
            ended.set()

    target.behaviour = endless
    attempt = await post(sender, target)
    assert (attempt.http_status, len(attempt.answer)) == (200, ANSWER_BYTES_MAX)
    await asyncio.wait_for(ended.wait(), 10)
    assert written < 64 << 20  # What the sockets between took.


@pytest.mark.threat(27)
async def test_a_receiver_that_says_nothing_is_given_up(sender: WebhookSender, target: Receiver) -> None:
    """Threat 27, slow-loris: the attempt ends by itself, and says so."""

    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    target.behaviour = silent
    attempt = await post(sender, target)
    assert attempt.http_status is None and "no answer within 1 s" in attempt.error


@pytest.mark.threat(27)
async def test_a_body_that_drips_costs_nothing_but_its_connection(sender: WebhookSender, target: Receiver) -> None:
    """The head decides; the rest of the body is not waited for."""

    async def dripping(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"x")
        await asyncio.Event().wait()
        raise AssertionError

    target.behaviour = dripping
    attempt = await post(sender, target)
    assert (attempt.http_status, attempt.answer) == (200, b"x")


@pytest.mark.threat(27)
async def test_an_expired_certificate_is_refused(
    sender: WebhookSender, certificates: Certificates, names: NameServer
) -> None:
    """Threat 27; and a certificate of another name, too."""
    for context, words in (
        (certificates.server(HOST, expired=True), "expired"),
        (certificates.server("other.example.com"), "not valid"),
    ):
        async with receiver(context) as other:
            rules = EgressRules(frozenset((other.port,)), allow_loopback=True)
            there = WebhookSender(rules, GuardedResolver(rules, [names.address]), SystemClock(), certificates.ca_file)
            attempt = await post(there, other)
            assert attempt.http_status is None and words in attempt.error, attempt.error
            assert other.delivered == []
            await there.close()


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000 + b"\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"x%d: y\r\n" % number for number in range(100_000)),
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20 + b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
@pytest.mark.threat(27)
async def test_answers_that_are_none_are_failures(names: NameServer, answer: bytes) -> None:
    """Heads without bound or end, no HTTP, a connection that closes: a clause for the log, and no exception."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    rules = EgressRules(allow_loopback=True)
    sender = WebhookSender(rules, GuardedResolver(rules, [names.address]), SystemClock(), None, 2.0)
    attempt = await sender.send(f"http://127.0.0.1:{port}/", {}, b"{}")
    assert attempt.http_status is None
    words = ("closed the connection before it answered", "not valid HTTP")
    assert any(word in attempt.error for word in words) and "Error" not in attempt.error, attempt.error
    server.close()
    await server.wait_closed()
    refused = await sender.send(f"http://127.0.0.1:{port}/", {}, b"{}")
    assert refused.error == "the connection was refused: nothing listens at this host and port"
    tls = await asyncio.start_server(lambda reader, writer: writer.write(b"no TLS here\r\n"), "127.0.0.1", port)
    assert "TLS 1.2" in (await sender.send(f"https://127.0.0.1:{port}/", {}, b"{}")).error
    tls.close()
    await sender.close()
