"""The rows of webhooks and signals."""

from actors.documents.event_operations import SIGNALS, WEBHOOKS
from actors.documents.operation import Access


def test_webhooks_belong_to_an_account_and_recent_signals_to_everybody() -> None:
    """Interface, "Webhook management" and "Public endpoints"."""
    assert {row.access for row in WEBHOOKS} == {Access.ACCOUNT} and all(row.is_limited for row in WEBHOOKS)
    assert {row.path: row.access for row in SIGNALS} == {
        "/signals/recent": Access.PUBLIC,
        "/signals/stream": Access.ACCOUNT,
    }
