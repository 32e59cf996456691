"""Libraries of Standard Webhooks, unmodified, verify what a receiver gets: PyPI's and npm's."""

import json
import time
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from actors.signals.api import LoggedSignal
from actors.signals.events import SignalEvent
from actors.webhooks.payloads import signal_event
from tests.npm import Npm
from tests.webhooks.outside import Delivered, receiver
from tests.webhooks.world import WebhookWorld, a_webhook_world

_VERIFY = Path(__file__).parent / "webhook_verify.mjs"
_SYSTEM = "1" * 32
_TYPES: tuple[dict[str, Any], ...] = (
    *({"filter_type": kind, "filter_value": _SYSTEM} for kind in ("account", "program")),
    {"filter_type": "my_account"},
    {"filter_type": "lifecycle", "lifecycle_events": ["low_balance"]},
    {"filter_type": "signal", "signal_events": ["newPair"]},
)
_SIGNAL = SignalEvent("newPair", "P", "S", 7, "Münze", ("a",))  # Beyond ASCII: the signature is of the bytes.


async def delivered_now(world: WebhookWorld) -> list[tuple[list[str], Delivered]]:
    """For each type of webhook its two secrets, as it was rotated, and a delivery, at the machine's time."""
    world.clock.advance(time.time() - world.clock.now())
    customer, secrets = await world.gateway.customer(1_000), {}
    async with receiver() as target:
        for fields in _TYPES:
            made = await world.register(customer, target.url, **fields)
            path = f"/webhooks/{made['id']}/rotate-secret"
            rotated = (await world.request(customer, "POST", path, {})).json()
            secrets[made["id"]] = [made["secret"], rotated["secret"]]
        for kind, subject in (("account", _SYSTEM), ("program", _SYSTEM), ("my_account", customer.text)):
            await world.queue(subject, filter_type=kind)
        low = world.event(customer.text, "lifecycle")._replace(kind="low_balance")
        body = json.dumps(_SIGNAL.body()).encode()
        told = LoggedSignal("1-1", "signal:S", "newPair", "M", "P", ("a",), (), 1, body, True, None)
        now_ms = world.clock.now_ms()
        await world.store.queue([low, signal_event(told, now_ms)], now_ms)
        await world.deliver()
        assert {each.headers["X-Webhook-Id"] for each in target.delivered} == set(secrets)
        return [(secrets[each.headers["X-Webhook-Id"]], each) for each in target.delivered]


async def test_both_libraries_verify_each_type_of_delivery(
    postgres_url: str, owner_url: str, tmp_path: Path, npm: Npm
) -> None:
    """Decisions, "webhook secret": with either secret during a rotation; not with another one, nor a body that was
    changed."""
    async with a_webhook_world(postgres_url, owner_url) as world:
        found = await delivered_now(world)
    assert len(found) == 5
    rows: list[dict[str, Any]] = []
    for secrets, sent in found:
        body, other = sent.body.decode(), "whsec_" + "A" * 43 + "="
        cases = [(secrets[0], body), (secrets[1], body), (other, body), (secrets[1], body + " ")]
        assert [_by_python(secret, text, sent) for secret, text in cases] == [True, True, False, False]
        headers = {name.lower(): value for name, value in sent.headers.items()}
        rows += [{"secret": secret, "body": text, "headers": headers} for secret, text in cases]
    path = tmp_path / "deliveries.json"
    path.write_text(json.dumps(rows))
    assert npm.run(_VERIFY, {"DELIVERIES": str(path)}) == [True, True, False, False] * 5


def _by_python(secret: str, body: str, sent: Delivered) -> bool:
    try:
        Webhook(secret).verify(body, dict(sent.headers))
    except WebhookVerificationError:
        return False
    return True
