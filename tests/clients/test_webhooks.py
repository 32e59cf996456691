"""Libraries of Standard Webhooks, unmodified, verify what a receiver gets: PyPI's and npm's."""

import json
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.npm import Npm
from tests.webhooks.outside import Delivered, receiver
from tests.webhooks.world import WebhookWorld, a_webhook_world

_VERIFY = Path(__file__).parent / "webhook_verify.mjs"


async def delivered_now(world: WebhookWorld, **fields: Any) -> tuple[list[str], Delivered]:
    """The two secrets of a webhook whose secret was rotated, and a delivery, at the machine's time."""
    import time

    world.clock.advance(time.time() - world.clock.now())
    customer = await world.gateway.customer(10)
    async with receiver() as target:
        made = await world.register(customer, target.url, **fields)
        path = f"/webhooks/{made['id']}/rotate-secret"
        rotated = (await world.request(customer, "POST", path, {})).json()
        is_signal = fields.get("filter_type") == "signal"
        await world.queue("" if is_signal else customer.text, filter_type="signal" if is_signal else "my_account")
        await world.deliver()
        (delivered,) = target.delivered
    return [made["secret"], rotated["secret"]], delivered


@pytest.mark.parametrize("filter_type", ["my_account", "signal"])
async def test_both_libraries_verify_a_delivery(
    postgres_url: str, owner_url: str, tmp_path: Path, npm: Npm, filter_type: str
) -> None:
    """Decisions 3.7: with either secret during a rotation; not with another one, nor a body that was changed."""
    async with a_webhook_world(postgres_url, owner_url) as world:
        secrets, sent = await delivered_now(world, filter_type=filter_type)
    body, other = sent.body.decode(), "whsec_" + "A" * 43 + "="
    cases = [(secrets[0], body), (secrets[1], body), (other, body), (secrets[1], body + " ")]
    assert [_by_python(secret, text, sent) for secret, text in cases] == [True, True, False, False]
    path = tmp_path / "deliveries.json"
    rows: list[dict[str, Any]] = [
        {"secret": secret, "body": text, "headers": {name.lower(): value for name, value in sent.headers.items()}}
        for secret, text in cases
    ]
    path.write_text(json.dumps(rows))
    assert npm.run(_VERIFY, {"DELIVERIES": str(path)}) == [True, True, False, False]


def _by_python(secret: str, body: str, sent: Delivered) -> bool:
    try:
        Webhook(secret).verify(body, dict(sent.headers))
    except WebhookVerificationError:
        return False
    return True
