"""The gRPC server of the stream: plaintext and TLS ports, in the node's process.

Implements: listening, the standard gRPC health service, and an orderly end. If a default port is taken, a free port
is used instead; a port from the command line must be free. The TLS port has the operator's certificate, checked before
the server starts, or one made for localhost and the node's host and kept in the chain's folder.
Not here: the service (service.py), making certificates (local_servers/certificates.py).
"""

from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from actors.clock import Clock
from actors.geyser_proto.api import SERVICE
from actors.local_servers.certificates import own_certificate
from actors.local_servers.ports import port_is_free
from devnode.geyser.calls import Calls
from devnode.geyser.hub import GrpcHub
from devnode.geyser.refusals import SHUTTING_DOWN
from devnode.geyser.service import Service
from devnode.geyser.settings import GeyserSettings
from devnode.ports import PORT_MAX, PortTaken, address_text
from devnode.rpc.node import Node

FOLDER = "grpc-tls"
LIFE_DAYS = 3_650
PORT = 10_000  # Yellowstone's default.
STOP_SECONDS = 1.0
REQUEST_BYTES_MAX = 4 * 1024 * 1024  # Yellowstone's default. Updates have no limit, so clients raise theirs.
_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # A second node on the same port must fail instead of sharing it.
    # As in Yellowstone, clients may ping at any rate; gRPC's default would disconnect them.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)


class BadCertificate(Exception):
    """The given certificate cannot be used; the text names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The key and certificate chain of the server, and the file that clients trust (None for a given certificate)."""

    key: bytes
    chain: bytes
    ca_file: Path | None


def given_identity(cert_file: Path, key_file: Path) -> Identity:
    """Read a given certificate. Raises BadCertificate if a file cannot be read or the key does not match."""
    try:
        key, chain = key_file.read_bytes(), cert_file.read_bytes()
        public = load_pem_private_key(key, password=None).public_key()
        certificate = x509.load_pem_x509_certificate(chain)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: the key has a password.
        raise BadCertificate(f"--grpc-tls-cert {cert_file}, --grpc-tls-key {key_file}: {error}") from error
    if certificate.public_key() != public:
        raise BadCertificate(f"--grpc-tls-key {key_file}: not the key of the certificate in {cert_file}")
    return Identity(key, chain, None)


def own_identity(data_dir: Path, host: str, clock: Clock) -> Identity:
    """Read the folder's certificate; make one if it is missing or not usable."""
    own = own_certificate(data_dir / FOLDER, (host,), "devnode", LIFE_DAYS, clock.now())
    return Identity(own.key, own.chain, own.ca_file)


class GeyserServer:
    """Call `start`, then `stop`. After `start`, the ports and the certificate authority are known."""

    def __init__(self, node: Node, hub: GrpcHub, settings: GeyserSettings, host: str, data_dir: Path) -> None:
        self._node, self._hub, self._settings = node, hub, settings
        self._host, self._data_dir = host, data_dir
        self._server: grpc.aio.Server | None = None
        self.port = 0
        self.tls_port = 0
        self.ca_file: Path | None = None  # None: the certificate was given, and its authority is unknown.

    async def start(self) -> None:
        """Start listening. Raises PortTaken, and BadCertificate if the given certificate cannot be used."""
        settings, node = self._settings, self._node
        server = grpc.aio.server(options=_OPTIONS)
        service = Service(self._hub, Calls(node, self._hub), node.clock, settings.limits, settings.token)
        healthy = health.aio.HealthServicer()
        server.add_generic_rpc_handlers((service.handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        for name in ("", SERVICE):
            await healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
        credentials = self._credentials(node.clock)
        self.port = self._listen(server, settings.port, PORT, "--grpc-port", None)
        self.tls_port = self._listen(server, settings.tls_port, self.port + 1, "--grpc-tls-port", credentials)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End all streams with UNAVAILABLE and stop; a second call changes nothing."""
        self._hub.end_all(SHUTTING_DOWN)
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)

    def _credentials(self, clock: Clock) -> grpc.ServerCredentials:
        cert, key = self._settings.tls_cert, self._settings.tls_key
        if cert is not None and key is not None:
            identity = given_identity(cert, key)
        else:
            identity = own_identity(self._data_dir, self._host, clock)
        self.ca_file = identity.ca_file
        return grpc.ssl_server_credentials([(identity.key, identity.chain)])

    def _listen(
        self,
        server: grpc.aio.Server,
        wanted: int | None,
        usual: int,
        flag: str,
        credentials: grpc.ServerCredentials | None,
    ) -> int:
        if wanted is None:  # Check before listening, because gRPC logs an error when it fails.
            wanted = usual if usual <= PORT_MAX and port_is_free(self._host, usual) else 0
        try:
            return self._add(server, wanted, credentials)
        except RuntimeError as error:
            raise PortTaken(f"cannot listen on {self._host}:{wanted}; give another {flag}") from error

    def _add(self, server: grpc.aio.Server, port: int, credentials: grpc.ServerCredentials | None) -> int:
        address = address_text(self._host, port)
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
