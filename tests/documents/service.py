"""The offer of the whole product, as its routes and its contexts have it, without starting it."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from actors.documents import endpoints
from actors.documents.offer import Offer, StreamOffer, offer
from actors.gateway.doors import http as door_http
from actors.methods.prices import SUBSCRIPTIONS
from actors.pricing_config import PricingConfig

_ACTORS = Path(__file__).parents[2] / "actors"
URL = "https://gateway.test"
STREAMS = StreamOffer(SUBSCRIPTIONS, 100, 200, 262_144, "gateway.test:443", grpc_is_tls=True)
DEPOSIT = {"instructions": "Send at least 0.01 USDC to DepositAddress1111111111111111111111111111."}


@functools.cache
def pages_of_contexts() -> list[str]:
    """Every `Page(...)` for customers in the sources: whoever adds one is found, whichever context it is."""
    found: list[str] = []
    for source in sorted(_ACTORS.rglob("*.py")):
        text = source.read_text(encoding="utf-8")
        if source.parent.name not in ("gateway", "documents") and "Page(" in text:
            found += _pages_in(ast.parse(text))
    return found


def _pages_in(module: ast.Module) -> Iterator[str]:
    constants = {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Page":
            # No document for customers names what is for operators.
            if any(one.arg == "for_operators" for one in node.keywords) or "OPERATOR" in ast.unparse(node.args[1]):
                continue
            verb, path = (
                one.value if isinstance(one, ast.Constant) else constants.get(_name(one)) for one in node.args[:2]
            )
            if path is not None:  # One that is worked out is of a file that browsers and robots look for.
                yield f"{verb} {path}"


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def served() -> list[str]:
    return [*door_http.endpoints(relay=True), *pages_of_contexts(), *endpoints.ENDPOINTS]


def the_offer() -> Offer:
    return offer(URL, served(), PricingConfig(), relay=True, streams=STREAMS, deposit=DEPOSIT)
