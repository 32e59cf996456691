from typing import Any

import pytest

from actors.errors import Err, Refusal
from actors.pages import PageRequest
from actors.webhooks.api import ListDeliveries, WebhookCommand
from actors.webhooks.endpoints import WebhookPages

ACCOUNT = b"k" * 32


class Asked:
    def __init__(self) -> None:
        self.commands: list[WebhookCommand] = []

    async def __call__(self, command: WebhookCommand) -> dict[str, Any] | Refusal:
        self.commands.append(command)
        return {}


async def call(asked: Asked, endpoint: str, **fields: Any) -> Any:
    (page,) = [page for page in WebhookPages(asked).pages() if page.endpoint == endpoint]
    return await page.handler(PageRequest(ACCOUNT, {"id": "wh_1"}, **fields))


async def test_every_command_names_the_proven_account_and_the_webhook_of_the_path() -> None:
    """Whose webhook it is, is never read from a body."""
    asked = Asked()
    body = b'{"pubkey":"other","webhook_id":"other"}'
    for page in WebhookPages(asked).pages():
        is_bare = page.endpoint.endswith(("/test", "/rotate-secret"))
        await page.handler(PageRequest(ACCOUNT, {"id": "wh_1"}, body=b" {} " if is_bare else body))
    assert len(asked.commands) == 8
    assert {command.pubkey for command in asked.commands} == {ACCOUNT}
    assert {command.webhook_id for command in asked.commands} == {"", "wh_1"}


@pytest.mark.parametrize("body", [b'{"secret":"mine"}', b"null", b"[]", b"junk", b"{}{}"])
async def test_a_rotation_and_a_test_take_no_fields(body: bytes) -> None:
    """A secret that a client names would not be the one that signs, so the request is refused before the rotation."""
    asked = Asked()
    for action in ("rotate-secret", "test"):
        found = await call(asked, f"POST /webhooks/{{id}}/{action}", body=body)
        assert isinstance(found, Refusal) and found.err is Err.INVALID_REQUEST and asked.commands == []


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "٣", "", "99999"])
async def test_a_limit_out_of_range_is_refused_before_anybody_is_asked(limit: str) -> None:
    """As the listings of /account/*."""
    asked = Asked()
    found = await call(asked, "GET /webhooks/{id}/deliveries", query={"limit": limit})
    assert isinstance(found, Refusal) and found.err is Err.INVALID_REQUEST
    assert asked.commands == []
    await call(asked, "GET /webhooks/{id}/deliveries", query={"limit": "7", "before": "evt_x"})
    assert asked.commands == [ListDeliveries(ACCOUNT, "wh_1", 7, "evt_x")]
