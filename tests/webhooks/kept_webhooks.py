"""What the store of webhooks in memory keeps: webhooks and jobs."""

from dataclasses import dataclass, field

from actors.webhooks.core import JobState
from actors.webhooks.payloads import QueuedEvent
from actors.webhooks.registrations import Webhook
from actors.webhooks.store import Dropped, LoggedJob, SealedSecrets

_NOTHING_DROPPED = Dropped(0, None)


@dataclass
class KeptHook:
    record: Webhook
    secrets: SealedSecrets
    failing_since_ms: int | None = None
    look_ms: int | None = None
    rest_until_ms: int = 0
    dropped: Dropped = _NOTHING_DROPPED


@dataclass
class KeptJob:
    id: int
    hook: str
    event: int
    due_ms: int
    created_ms: int
    state: int = JobState.WAITING
    attempts: int = 0
    lease: int = 0
    leased_by: str = ""
    tried: list[tuple[int, int, int | None, str, bytes]] = field(default_factory=list)

    def logged(self, has_attempts: bool) -> LoggedJob:
        tried = tuple(sorted(self.tried)) if has_attempts else ()
        return LoggedJob(self.id, self.state, self.attempts, self.created_ms, self.due_ms, tried)


def matches(record: Webhook, event: QueuedEvent) -> bool:
    wanted = record.filter
    if record.status != "active" or (wanted.filter_type, wanted.subject) != (event.filter_type, event.subject):
        return False
    return event.kind is None or (
        (wanted.kinds is None or event.kind in wanted.kinds)
        and (wanted.wallets is None or not set(wanted.wallets).isdisjoint(event.wallets or ()))
        and (wanted.mint is None or event.mint == wanted.mint)
        and (wanted.programs is None or event.program in wanted.programs)
        and (event.lamports is None or event.lamports >= wanted.min_lamports)
    )


def fails(hook: KeptHook) -> bool:
    """As webhooks_claim counts: a webhook that was enabled again fails until it has worked."""
    return hook.failing_since_ms is not None or hook.record.last_status in ("retrying", "failed")
