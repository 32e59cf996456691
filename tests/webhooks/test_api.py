from typing import Any

from actors import hosting
from actors.errors import Err, Refusal
from actors.webhooks.api import ListWebhooks, TryWebhook, WebhooksClient


async def test_a_dispatcher_that_does_not_answer_is_a_refusal_with_a_retry(monkeypatch: Any) -> None:
    """503, and not an error of ours; a test delivery may take as long as its endpoint."""
    waits: list[float] = []

    async def ask(handle: Any, method: str, *arguments: Any, wait_seconds: float) -> Any:
        waits.append(wait_seconds)
        raise hosting.ActorUnreachable("ask")

    monkeypatch.setattr(hosting, "ask", ask)
    client = WebhooksClient(None)
    for command in (ListWebhooks(b"k" * 32), TryWebhook(b"k" * 32, "wh_1")):
        found = await client.ask(command)
        assert isinstance(found, Refusal) and found.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    assert waits[1] > 15 > waits[0]
