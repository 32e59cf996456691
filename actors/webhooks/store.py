"""The lasting state of webhooks: registrations, events, deliveries, the log of attempts. The port, and its nouns.

Implements: design, "What must survive what"; threats 26 to 29 (what is kept). Decides nothing.
postgres_store.py is the store of the product; tests/webhooks/memory_store.py passes the same tests.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from actors.webhooks.payloads import QueuedEvent
from actors.webhooks.registrations import Change, Webhook

ANY_BYTES = 1 << 62
JOBS_WAITING_MAX = 10_000  # Of one webhook; events beyond make no job for it, and are counted.
PAUSED_JOBS_MAX = 1_000  # The same for a paused account: storage is for paying accounts.


class WebhooksUnavailable(Exception):
    """The store did not answer: the change may or may not have been made."""


class SliceTaken(WebhooksUnavailable):
    """Another dispatcher has the slice; nothing was changed."""


class Job(NamedTuple):
    """A leased delivery. The secrets are sealed."""

    id: int
    lease: int
    attempts: int
    webhook_id: str
    pubkey: bytes
    url: str
    filter_type: str
    secret: bytes
    previous_secrets: Sequence[bytes]
    previous_until_ms: Sequence[int]
    failing_since_ms: int | None
    body: str
    is_free: bool

    @property
    def secrets(self) -> "SealedSecrets":
        return SealedSecrets(self.secret, self.previous_secrets, self.previous_until_ms)


class Room(NamedTuple):
    """The jobs that a claim may lease.

    jobs: free places. failing: of them for webhooks that fail. each: jobs of one webhook under lease. at_once: the same
    where the account holds `share` places, or as many as are free. holders, held: accounts that hold more places than
    one webhook may have requests under way, and how many each of them holds; others go first.
    """

    jobs: int
    failing: int
    each: int
    at_once: int
    share: int
    holders: Sequence[bytes] = ()
    held: Sequence[int] = ()


class JobResult(NamedTuple):
    """Result of one attempt, as arguments of webhooks_finish(). attempts: made so far."""

    job: int
    lease: int
    state: int
    due_ms: int
    attempts: int
    at_ms: int
    latency_ms: int
    http_status: int | None
    error: str
    answer: bytes
    disable: str | None


class SealedSecrets(NamedTuple):
    """previous: the newest first; previous_until_ms: until when each of them is valid."""

    secret: bytes
    previous: Sequence[bytes]
    previous_until_ms: Sequence[int]

    def valid(self, now_ms: int) -> list[bytes]:
        """Return the secrets that sign now, the newest first."""
        pairs = zip(self.previous, self.previous_until_ms, strict=True)
        return [self.secret, *(sealed for sealed, until_ms in pairs if now_ms < until_ms)]


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A delivery with its attempts, oldest first: (at_ms, latency_ms, http_status, error, answer)."""

    id: int
    state: int
    attempts: int
    created_ms: int
    due_ms: int
    tried: tuple[tuple[int, int, int | None, str, bytes], ...]


class Dropped(NamedTuple):
    """Events that made no job for a webhook, because too many waited. at_ms: the newest of them."""

    events: int
    at_ms: int | None


class SourceCursor(NamedTuple):
    """How far a source was read: the chain by a slot, or the log of signals by its cursor."""

    slot: int | None = None
    log_cursor: str | None = None


class QueueFigures(NamedTuple):
    waiting: int
    oldest_ms: int | None  # Creation time of the oldest waiting job.
    paused_accounts: int

    def oldest_seconds(self, now_ms: int) -> float:
        return 0.0 if self.oldest_ms is None else max(0, now_ms - self.oldest_ms) / 1_000


class WebhookStore(Protocol):
    """As one dispatcher reads and writes it. Every method raises WebhooksUnavailable where the store does not answer.

    What a dispatcher writes carries the epoch of its slice: of the account, or of the sources (slices.py). Where
    another one has claimed that, the write leaves the slice alone; methods about one slice raise SliceTaken.
    """

    # --- registrations

    async def create(self, webhook: Webhook, sealed: bytes) -> bool:
        """False: the account has WEBHOOKS_MAX already."""
        ...

    async def registered(self, pubkey: bytes) -> tuple[int, int]:
        """Return how many webhooks the account has, and how many there are in all."""
        ...

    async def of_account(self, pubkey: bytes) -> list[Webhook]: ...

    async def find(self, pubkey: bytes, webhook_id: str) -> Webhook | None: ...

    async def delete(self, pubkey: bytes, webhook_id: str, now_ms: int) -> bool:
        """Remove a webhook, its jobs and their log; what is under way or not charged yet is still charged. False: there
        is none."""
        ...

    async def secrets(self, webhook_id: str) -> SealedSecrets | None: ...

    async def rotate(
        self, pubkey: bytes, webhook_id: str, sealed: bytes, now_ms: int, until_ms: int, previous_max: int
    ) -> int | None:
        """Make a secret the present one; those before it stay valid until their times, previous_max at most.

        Gives 0, or the time from which it can be done, or None where there is no such webhook.
        """
        ...

    async def change(self, pubkey: bytes, webhook_id: str, change: Change, now_ms: int) -> Webhook | None:
        """None: there is no such webhook. Enabling one forgets its streak of failures."""
        ...

    async def log(self, webhook_id: str, before: int | None, limit: int, bytes_max: int = ANY_BYTES) -> list[LoggedJob]:
        """Return the newest first. before: only jobs of a lower number. bytes_max: after jobs whose attempts have more
        bytes of answers together, others are told without their attempts."""
        ...

    async def dropped(self, webhook_id: str) -> Dropped: ...

    async def replay(
        self, webhook_id: str, jobs: Sequence[int] | None, from_ms: int, to_ms: int, now_ms: int, jobs_max: int
    ) -> int:
        """Make ended jobs wait again: these, or those of a time, the oldest first; jobs_max may wait then in all.
        Of their earlier attempts the newest ATTEMPTS_MAX stay in the log. Gives the number of jobs."""
        ...

    # --- events

    async def queue(self, events: Sequence[QueuedEvent], now_ms: int, cursor: SourceCursor | None = None) -> int:
        """Keep events and make a job for each webhook that matches, in one transaction with the cursor of their source.
        An event of a cause that was queued before is ignored. Gives the number of jobs. Of the sources' slice."""
        ...

    async def take_account_events(self, limit: int, now_ms: int) -> int:
        """Move events of accounts from their outbox into the queue, in one transaction: each is queued once, whatever
        is killed. Gives the number of events. Of the sources' slice."""
        ...

    async def cursor(self) -> SourceCursor:
        """Return the cursor from which each source must be read; None: it was never read."""
        ...

    async def watched(self) -> frozenset[str]:
        """Return every account and program that an active webhook watches on the chain."""
        ...

    async def named_wallets(self, paused_before_ms: int) -> dict[bytes, frozenset[str]]:
        """Return the wallets that signal webhooks name, by account. An account that is paused since before
        paused_before_ms has none: its places are given back."""
        ...

    # --- deliveries

    async def claim(self, claimer: str, now_ms: int, until_ms: int, room: Room) -> list[Job]:
        """Lease jobs of the slices served that are due, by the rules of places.py: webhooks that work first, of these
        the ones whose accounts hold the fewest places, of these the ones that waited longest."""
        ...

    async def finish(self, results: Sequence[JobResult], now_ms: int) -> None:
        """Store results of attempts. Ignores the result of a lease that was followed by another one."""
        ...

    async def release(self, jobs: Sequence[int], now_ms: int) -> None:
        """Give leases back unused."""
        ...

    async def confirm(self) -> None:
        """Drop the slices that another dispatcher has claimed."""
        ...

    async def recover(self, slices: Collection[int], now_ms: int) -> int:
        """Give back whatever is leased of these slices, by whichever dispatcher. Gives the number of jobs."""
        ...

    async def put_off(self, jobs: Sequence[int], until_ms: int, now_ms: int) -> None:
        """Give leases back unused, and leave their webhooks alone until then, or until one of their requests works."""
        ...

    # --- accounts without credits

    async def pause(self, accounts: Sequence[bytes], now_ms: int, look_ms: int) -> None:
        """Lease nothing that these accounts pay for until `paid` lets them go on. `debts` gives them from look_ms."""
        ...

    async def wallet_accounts(self) -> list[bytes]:
        """Return the accounts whose webhooks name wallets and that are not paused."""
        ...

    async def debts(self, now_ms: int, look_ms: int, limit: int) -> list[bytes]:
        """Return paused accounts of the slices served that should be looked at now; the next look is at look_ms."""
        ...

    async def unpaid(self, pubkey: bytes, limit: int) -> list[tuple[int, str]]:
        """Return (job, webhook) of deliveries that are not charged yet."""
        ...

    async def paid(self, pubkey: bytes, jobs: Sequence[int]) -> bool:
        """Record that these are charged. True: nothing is unpaid any more, and the account's deliveries continue."""
        ...

    # --- keeping order

    async def expire(self, before_ms: int, now_ms: int) -> int:
        """End jobs that wait since before then, of webhooks that are disabled or whose account has no credits. Deleted
        webhooks that owe nothing any more are removed. Of all slices, by the dispatcher of the sources."""
        ...

    async def forget(self, before_ms: int) -> int:
        """Remove jobs that ended before then, and events without jobs. Gives the number of rows. As expire()."""
        ...

    async def figures(self) -> QueueFigures:
        """Count the waiting jobs of the served slices."""
        ...
