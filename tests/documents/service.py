"""The offer of the whole product, as its routes and its contexts have it, without starting it."""

import re
from pathlib import Path

from actors.config import PricingConfig
from actors.documents import endpoints
from actors.documents.offer import Offer, offer
from actors.gateway import door_http

_ACTORS = Path(__file__).parents[2] / "actors"
_PAGE = re.compile(r'Page\(\s*"([A-Z]+)", "(/[^"]*)"')
URL = "https://gateway.test"


def pages_of_contexts() -> list[str]:
    """Every `Page(...)` in the sources: whoever adds one is found, whichever context it is."""
    found = []
    for source in sorted(_ACTORS.rglob("*.py")):
        if source.parent.name not in ("gateway", "documents"):
            found += [f"{verb} {path}" for verb, path in _PAGE.findall(source.read_text(encoding="utf-8"))]
    return found


def served() -> list[str]:
    return [*door_http.endpoints(relay=True), *pages_of_contexts(), *endpoints.ENDPOINTS]


def the_offer() -> Offer:
    return offer(URL, served(), PricingConfig(), relay=True)
