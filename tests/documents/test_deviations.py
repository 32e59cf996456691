"""The OpenAPI document against a running door: schemathesis sends generated requests and holds every answer against it.

A longer run, against a whole product, uses the same schemathesis.toml: actors/documents/README.md has the command.
"""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.hooks import should_keep_failure
from schemathesis.openapi.checks import RejectedPositiveData

from actors.config import PaymentsConfig
from actors.documents import endpoints, openapi
from actors.documents.offer import StreamOffer, offer
from actors.documents.operation import Access
from actors.documents.operations import OPERATIONS
from actors.errors import Err, Refusal
from actors.gateway.calls import outcomes
from actors.gateway.doors import http as door_http
from actors.methods.accounts import BulkQuestion
from actors.pricing_config import PricingConfig
from actors.status import endpoints as status
from actors.status.core import Health, Services
from actors.status.products import Doors
from actors.upstream import replies
from actors.upstream.node_health import Probe
from tests.gateway.doubles import ScriptedNode
from tests.gateway.payment_doubles import Desk
from tests.gateway.test_wire import listening
from tests.gateway.world import a_world

from .service import DEPOSIT

SERVED = (*door_http.endpoints(relay=True), *endpoints.ENDPOINTS)
OFFER = offer("http://127.0.0.1", SERVED, PricingConfig(), relay=True, streams=StreamOffer(), deposit=DEPOSIT)
UP = Services(ledger_committing=True, redis_reachable=True)
LIMITLESS = {
    "accounts": {"requests_per_second": 1_000_000, "concurrency": 1_000},
    "gateway": {"account_refusals_per_second": 1_000_000, "address_refusals_per_second": 1_000_000},
    "peers_are_clients": False,
}

CONFIG = SchemathesisConfig.from_path(Path(__file__).with_name("schemathesis.toml"))
SCHEMA = schemathesis.openapi.from_dict(openapi.document(OFFER), config=CONFIG)
CREDENTIALS = ("X-Api-Key", "X-Pubkey", "X-Signature", "X-Timestamp", "X-Nonce", "Authorization")
few = settings(
    max_examples=5,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class StatusDocuments:
    """The public documents as the product makes them."""

    def __init__(self) -> None:
        self._doors = Doors(relay=True)
        self._health = Health().after_services(UP).after_probe(Probe(True, slot=9, block_height=8, version="2"), 9)

    def health(self) -> tuple[int, dict[str, Any]]:
        return status.health_http_status(self._health), status.health_document(self._health, 5, 3, self._doors)

    def pricing(self, price_list: str = "") -> dict[str, Any]:
        return status.pricing_document(PaymentsConfig(), PricingConfig(), outcomes.PUBLISHED, self._doors)

    def capabilities(self) -> dict[str, Any]:
        return status.capabilities_document(self._doors, SERVED)

    def landing(self) -> dict[str, Any] | None:
        return {"races": 0}


class NoDeposits:
    async def confirm(self, signature: bytes, pubkey: bytes, balance: int | None) -> Refusal:
        return Refusal(Err.DEPOSIT_NOT_FOUND)


def _answer(method: str, params: bytes) -> Any:
    """As the product's own parts answer; nodes answer anything."""
    if method.startswith("bulk/"):
        asked = msgspec.json.decode(params, type=BulkQuestion)
        name, field, value = {
            "bulk/getBalances": ("address", "lamports", 0),
            "bulk/getTokenBalances": ("owner", "tokens", []),
            "bulk/getTransactions": ("signature", "transaction", None),
        }[method]
        rows = [{name: item, field: value} for item in asked.items]
        slot = {"slot": 7} if field == "lamports" else {}
        body = {"commitment": asked.commitment, **slot, "results": rows, "errors": []}
        return replies.made_of_pieces(orjson.dumps(body), len(rows), len(rows))
    return replies.made(b'["a"]')


@pytest.fixture(scope="module")
def door() -> Iterator[tuple[str, str]]:
    """URL of the real door behind the real server, and an API key with credits. It runs in a thread of its own."""
    ready, over = threading.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        desk, settings_ = Desk(), {**LIMITLESS, "pages": endpoints.pages(OFFER), "deposits": NoDeposits()}
        async with a_world(
            ScriptedNode(_answer), None, desk, relay=True, status=StatusDocuments(), **settings_
        ) as world:
            desk.world = world
            customer = await world.customer(10**9)
            async with listening(world.door, swift=True) as port:
                found.extend((f"http://127.0.0.1:{port}", customer.api_key))
                ready.set()
                while not over.is_set():
                    await asyncio.sleep(0.05)
                    world.clock.advance(1)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    yield found[0], found[1]
    over.set()
    thread.join()


@SCHEMA.parametrize()
@few
def test_with_a_key_no_answer_deviates(case: Any, door: tuple[str, str]) -> None:
    """Statuses, headers, content types and bodies are as documented; bad requests are refused, good ones are not."""
    case.headers.pop("Idempotency-Key", None)  # tests/gateway/calls/test_idempotent.py is about it.
    case.call_and_validate(base_url=door[0], headers={"X-Api-Key": door[1]})


@SCHEMA.parametrize()
@settings(few, max_examples=2, phases=[Phase.generate])
def test_without_a_credential_the_contract_is_402(case: Any, door: tuple[str, str]) -> None:
    """Decisions, "402 without credentials": before anything else of the request is looked at, and as documented."""
    for name in CREDENTIALS:
        case.headers.pop(name, None)
    case.query.pop("api-key", None)
    response = case.call(base_url=door[0])
    checks = CHECKS.get_by_names(["status_code_conformance", "content_type_conformance", "response_schema_conformance"])
    case.validate_response(response, checks=checks)
    row = OPERATIONS[f"{case.method.upper()} {case.operation.path}"]
    if row.access in (Access.ACCOUNT, Access.WALLET, Access.SESSION):
        assert response.status_code == 402, response.text


@pytest.mark.parametrize(
    ("path", "kind", "status_code", "text", "is_kept"),
    [
        ("/rpc", "accepted", 200, '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', False),
        ("/rpc", "accepted", 200, '{"jsonrpc":"2.0","id":1,"result":1}', True),
        ("/rpc", "accepted", 200, '[{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}},{"result":1}]', True),
        ("/quote", "accepted", 200, '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', True),
        ("/rpc", "rejected", 412, '{"error":{"code":"MAX_CREDITS_EXCEEDED"}}', False),
        ("/quote", "rejected", 412, '{"error":{"code":"MAX_CREDITS_EXCEEDED"}}', True),
        ("/rpc", "rejected", 400, '{"error":{"code":"INVALID_REQUEST","message":"the body must be JSON"}}', True),
        ("/bulk/getBalances", "rejected", 400, '{"error":{"message":"not a base58 public key"}}', True),
        ("/rpc", "rejected", 500, '{"error":{"message":"an Idempotency-Key belongs to one call"}}', True),
    ],
)
def test_only_contracts_are_left_out(path: str, kind: str, status_code: int, text: str, is_kept: bool) -> None:
    """A failure stays that differs from the hooks by its operation, its status, its text or its request."""
    about: dict[str, Any] = {"operation": f"POST {path}", "message": "", "status_code": status_code}
    failure = (
        AcceptedNegativeData(**about, expected_statuses=[])
        if kind == "accepted"
        else RejectedPositiveData(**about, allowed_statuses=[])
    )
    sent = SimpleNamespace(url="http://127.0.0.1/", body=b'["11111111111111111111111111111111"]')  # A sound key.
    response: Any = SimpleNamespace(status_code=status_code, text=text, request=sent)
    assert should_keep_failure(failure, SCHEMA[path]["POST"].Case(), response) is is_kept
