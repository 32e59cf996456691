"""The places of a dispatcher: how many jobs it may have under lease, and how accounts share them.

Implements: threats 27 and 28 (slow receivers delay nobody else, however many webhooks their account has). Pure.
A place is one job under lease, from the claim of the job until its result is kept.

A webhook whose account holds less than its share gets jobs ahead of its requests, so that the next request begins at
once. Beyond the share, and where the account holds as many places as are free, a webhook gets only as many jobs as it
may have requests under way. So no request waits while a place is free, and 50 webhooks of one account that are slow
hold about 600 places in place of 1,600. A place that becomes free goes to the account that holds the fewest.
functions.sql (webhooks_claim) applies these rules to what is due.

An account gets what costs something only while it has credits: it holds places for a tenth of the deliveries that its
balance pays, and for one at least (paid_places_max). For each of these a credit is held (payments.py); the other nine
tenths stay available for its calls, however slow its receivers are.
"""

from collections import Counter
from collections.abc import Iterable

from actors.webhooks.lanes import AT_ONCE_MAX
from actors.webhooks.store import Job, Room

LEASED_MAX = 2_000
LEASED_OF_ONE_MAX = 32  # Of one webhook: at eight at once and 15 s each they end before their lease.
FAILING_SHARE = 2  # Failing webhooks may use one part in this many of the places; the rest is for others.
# An eighth of the places for jobs ahead of requests: 20 busy webhooks of as many accounts keep their lanes full.
ACCOUNT_SHARE = 8
HELD_SHARE = 10


def paid_places_max(balance: int, credits_each: int) -> int:
    """Return how many places an account of this balance may hold for deliveries that cost something."""
    covered = balance // credits_each
    return 0 if covered < 1 else max(1, covered // HELD_SHARE)


class Places:
    def __init__(self, places_max: int = LEASED_MAX) -> None:
        self._max = places_max
        self._held: Counter[bytes] = Counter()
        self._paid: Counter[bytes] = Counter()  # Number of those for deliveries that cost credits.
        self._failing = 0
        self.taken = 0

    @property
    def accounts(self) -> list[bytes]:
        """Return the accounts that hold places."""
        return list(self._held)

    def of(self, account: bytes) -> int:
        return self._held[account]

    def paid_of(self, account: bytes) -> int:
        return self._paid[account]

    def room(self) -> Room:
        large = [(account, held) for account, held in self._held.items() if held > AT_ONCE_MAX]
        return Room(
            jobs=max(0, self._max - self.taken),
            failing=max(0, self._max // FAILING_SHARE - self._failing),
            each=LEASED_OF_ONE_MAX,
            at_once=AT_ONCE_MAX,
            share=self._max // ACCOUNT_SHARE,
            holders=[account for account, _ in large],
            held=[held for _, held in large],
        )

    def take(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._held[job.pubkey] += 1
            self._paid[job.pubkey] += not job.is_free
            self._failing += job.failing_since_ms is not None
            self.taken += 1

    def attempted(self, job: Job) -> None:
        """Make room for another job of failing webhooks, once a failing webhook's request has ended or is not made."""
        self._failing -= job.failing_since_ms is not None

    def free(self, jobs: Iterable[Job]) -> None:
        """Free the places of jobs whose results are stored, or whose leases are given back."""
        for job in jobs:
            self.taken -= 1
            self._held[job.pubkey] -= 1
            self._paid[job.pubkey] -= not job.is_free
            if not self._held[job.pubkey]:
                del self._held[job.pubkey], self._paid[job.pubkey]
