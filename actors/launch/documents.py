"""Makes the documents of one replica from what its doors, its pages and its methods offer.

Implements: design, section 3 (contexts of one level are joined here). Wiring.
"""

from collections.abc import Sequence

from actors.config import Config
from actors.documents import endpoints
from actors.documents.offer import Offer, offer
from actors.gateway import door_http
from actors.gateway.door_parts import public_url_of
from actors.pages import Page
from actors.upstream.replies import MethodHandler, NodeAnswer, made


def offer_of(config: Config, pages: Sequence[Page] = ()) -> Offer:
    """The gateway's own paths, these pages, the documents themselves, and the methods."""
    relay = config.sends.block_engine_url is not None
    served = (*door_http.endpoints(relay), *(page.endpoint for page in pages), *endpoints.ENDPOINTS)
    return offer(public_url_of(config), served, config.pricing, relay)


def with_documents(config: Config, pages: Sequence[Page]) -> list[Page]:
    """These pages, and the documents about them."""
    return [*pages, *endpoints.pages(offer_of(config, pages))]


def discovery(config: Config) -> dict[str, MethodHandler]:
    """The handler of rpc.discover, which answers with the document of /openrpc.json. Its answer is made once."""
    answer = made(endpoints.openrpc_bytes(offer_of(config)))

    async def discover(params: bytes, timeout_ms: int) -> NodeAnswer:
        del params, timeout_ms
        return answer

    return {"rpc.discover": discover}
