"""Makes the documents of one replica from what its doors, its pages and its methods offer.

Implements: design, "Layout" (contexts of one level are joined here). Wiring.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from actors.config import Config
from actors.documents import endpoints
from actors.documents.offer import Offer, StreamOffer, offer
from actors.gateway.doors import http as door_http
from actors.gateway.doors.parts import public_url_of
from actors.gateway.payments import terms as payment_terms
from actors.launch.assembly.streaming import offers_streams
from actors.methods.prices import SUBSCRIPTIONS
from actors.pages import Page
from actors.upstream.replies import MethodHandler, NodeAnswer, made


def offer_of(config: Config, pages: Sequence[Page] = ()) -> Offer:
    """Return the offer: the gateway's own paths, these pages, the documents, and the methods."""
    relay = bool(config.sends.engines)
    served = (*door_http.endpoints(relay), *(page.endpoint for page in pages), *endpoints.ENDPOINTS)
    url = public_url_of(config)
    deposit = payment_terms.build(config.payments, url, "/").deposit
    return offer(url, served, config.pricing, relay, _streams(config, url), deposit)


def _streams(config: Config, public_url: str) -> StreamOffer:
    """With TLS one port serves HTTPS and gRPC; without it gRPC has its own port."""
    url = urlsplit(public_url)
    is_tls = url.scheme == "https"
    port = url.port or 443 if is_tls else config.serve.grpc_port
    return StreamOffer(
        SUBSCRIPTIONS if offers_streams(config) else (),
        config.streams.subscriptions_max,
        config.gateway.socket_messages_per_second_max,
        config.gateway.body_bytes_max,
        f"{url.netloc.removesuffix(f':{url.port}')}:{port}" if config.upstream.yellowstone_url else "",
        is_tls,
    )


def with_documents(config: Config, pages: Sequence[Page]) -> list[Page]:
    """Return these pages, and the documents about them."""
    return [*pages, *endpoints.pages(offer_of(config, pages))]


def discovery(config: Config) -> dict[str, MethodHandler]:
    """The handler of rpc.discover, which answers with the document of /openrpc.json. Its answer is made once."""
    answer = made(endpoints.openrpc_bytes(offer_of(config)))

    async def discover(params: bytes, timeout_ms: int) -> NodeAnswer:
        del params, timeout_ms
        return answer

    return {"rpc.discover": discover}
