"""Makes the documents of one replica from what its doors, its pages and its methods offer.

Implements: design, section 3 (contexts of one level are joined here). Wiring.
"""

from collections.abc import Sequence

from actors.config import Config
from actors.documents import endpoints
from actors.documents.offer import offer
from actors.gateway import door_http
from actors.gateway.door_parts import public_url_of
from actors.pages import Page


def document_pages(config: Config, pages: Sequence[Page]) -> list[Page]:
    """The pages of documents about the gateway's own paths, these pages, and themselves."""
    relay = config.sends.block_engine_url is not None
    served = (*door_http.endpoints(relay), *(page.endpoint for page in pages), *endpoints.ENDPOINTS)
    return endpoints.pages(offer(public_url_of(config), served, config.pricing, relay))
