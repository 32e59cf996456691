"""The outside world of deliveries, on real sockets: receivers with TLS, a DNS server, certificates."""

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Certificates:
    """A certificate authority in a folder, and server contexts that it has signed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        now = datetime.datetime.now(datetime.UTC)
        root = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(root.public_bytes(serialization.Encoding.PEM))

    def server(self, host: str, expired: bool = False) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        leaf = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now - DAY if expired else now + DAY)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path = self._folder / f"{host}-{expired}.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(secret + leaf.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


class NameServer(asyncio.DatagramProtocol):
    """DNS over UDP. records: name and type to addresses; a list of lists is given out one answer after the other."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.silent = False
        self.address = ""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.address = f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"

    def datagram_received(self, data: bytes, address: Any) -> None:
        question = dns.message.from_wire(data)
        name = question.question[0].name.to_text().rstrip(".")
        kind = dns.rdatatype.to_text(question.question[0].rdtype)
        self.asked.append((name, kind))
        if self.silent:
            return
        answer = dns.message.make_response(question)
        answer.flags |= dns.flags.RA
        found = self.records.get((name, kind), [])
        if found and isinstance(found[0], list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if found:
            answer.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", kind, *found))
        elif not any(known == name for known, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), address)


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()


class Delivered(NamedTuple):
    headers: Mapping[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["X-Webhook-Event-Id"]


Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Receiver:
    """Takes deliveries and answers as its `behaviour` says; 204 by default."""

    def __init__(self) -> None:
        self.delivered: list[Delivered] = []
        self.behaviour: Behaviour | None = None
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.delivered.append(Delivered(request.headers.copy(), await request.read()))
        return web.Response(status=204) if self.behaviour is None else await self.behaviour(request)

    def answers(self, status: int, **headers: str) -> None:
        async def behaviour(request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, headers=headers, text="said")

        self.behaviour = behaviour

    def waits(self) -> asyncio.Event:
        """Answer no request before the event that this returns is set."""
        released = asyncio.Event()

        async def behaviour(request: web.Request) -> web.StreamResponse:
            await released.wait()
            return web.Response(status=204)

        self.behaviour = behaviour
        return released


@contextlib.asynccontextmanager
async def receiver(context: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    found = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    found.port = runner.addresses[0][1]
    try:
        yield found
    finally:
        await runner.cleanup()
