"""The OpenAPI document against a running door: schemathesis sends generated requests and holds every answer against it.

A longer run, against a whole product (checks that this service answers otherwise by its contract are left out: 402 and
not 401 without a credential, 404 and not 405 for another method of a known path):

    schemathesis run http://127.0.0.1:8080/openapi.json -H "X-Api-Key: $API_KEY" --max-examples 200 --seed 1 \
        --exclude-checks ignored_auth,unsupported_method

"Schema-valid request rejected" then remains where a rule ties two parts of a request together, which no schema says: an
Idempotency-Key with a batch, lifecycle_events with another filter_type, a price above X-Max-Credits; and for base58
that holds another number of bytes. Such a run needs more than the 60 requests a minute that an address usually has.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import SchemathesisConfig

from actors.config import PaymentsConfig, PricingConfig
from actors.documents import endpoints, openapi
from actors.documents.offer import offer
from actors.documents.operation import Access
from actors.documents.operations import OPERATIONS
from actors.errors import Err, Refusal
from actors.gateway import door_http, outcomes
from actors.method_requests import BulkQuestion
from actors.status import endpoints as status
from actors.status.core import Health, Services
from actors.status.products import Doors
from actors.units import base58_text
from actors.upstream import replies
from actors.upstream.node_health import Probe
from tests.gateway.doubles import ScriptedNode
from tests.gateway.payment_doubles import Desk
from tests.gateway.test_wire import listening
from tests.gateway.world import a_world

SERVED = (*door_http.endpoints(relay=True), *endpoints.ENDPOINTS)
OFFER = offer("http://127.0.0.1", SERVED, PricingConfig(), relay=True)
NOT_OURS = {"ignored_auth", "unsupported_method"}
UP = Services(ledger_committing=True, redis_reachable=True)
LIMITLESS = {
    "accounts": {"requests_per_second": 1_000_000, "concurrency": 1_000},
    "gateway": {"account_refusals_per_second": 1_000_000, "address_refusals_per_second": 1_000_000},
    "peers_are_clients": False,
}

load_all_checks()
schemathesis.openapi.format("solana-pubkey", st.binary(min_size=32, max_size=32).map(base58_text))
schemathesis.openapi.format("solana-signature", st.binary(min_size=64, max_size=64).map(base58_text))
# 412: the request's own X-Max-Credits does not suffice.
_TAKEN = ["2xx", "3xx", "401", "403", "404", "409", "412", "429", "5xx"]
_CONFIG = SchemathesisConfig.from_dict(
    {
        "generation": {"with-security-parameters": False},
        "checks": {"positive_data_acceptance": {"expected-statuses": _TAKEN}},
    }
)
SCHEMA = schemathesis.openapi.from_dict(openapi.document(OFFER), config=_CONFIG)
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

    def pricing(self) -> dict[str, Any]:
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
        items = msgspec.json.decode(params, type=BulkQuestion).items
        name, field, value = {
            "bulk/getBalances": ("address", "lamports", 0),
            "bulk/getTokenBalances": ("owner", "tokens", []),
            "bulk/getTransactions": ("signature", "transaction", None),
        }[method]
        rows = [{name: item, field: value} for item in items]
        return replies.made_of_pieces(orjson.dumps({"results": rows, "errors": []}), len(rows), len(rows))
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
    left_out = set(NOT_OURS)
    if case.operation.path == "/account/usage":  # Its times must be in order, which no schema says.
        left_out.add("positive_data_acceptance")
    case.headers.pop("Idempotency-Key", None)  # tests/gateway/test_idempotent_calls.py is about it.
    checks = CHECKS.get_by_names([name for name in CHECKS.get_all_names() if name not in left_out])
    case.call_and_validate(base_url=door[0], headers={"X-Api-Key": door[1]}, checks=checks)


@SCHEMA.parametrize()
@settings(few, max_examples=2, phases=[Phase.generate])
def test_without_a_credential_the_contract_is_402(case: Any, door: tuple[str, str]) -> None:
    """Decisions, "402 without credentials": before anything else of the request is looked at, and as documented."""
    response = case.call(base_url=door[0])
    checks = CHECKS.get_by_names(["status_code_conformance", "content_type_conformance", "response_schema_conformance"])
    case.validate_response(response, checks=checks)
    row = OPERATIONS[f"{case.method.upper()} {case.operation.path}"]
    if row.access in (Access.ACCOUNT, Access.WALLET, Access.SESSION):
        assert response.status_code == 402, response.text
