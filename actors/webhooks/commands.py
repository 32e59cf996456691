"""Carries out the commands of the pages: registrations, their secrets, the log of deliveries, tests and replays.

Implements: interface, "Webhook management"; decisions, webhook record, secret, rotation, replay and test.
A shell: registrations.py checks bodies, the guard checks URLs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.accounts.api import AccountStanding
from actors.clock import Clock
from actors.errors import Err, Refusal
from actors.place_shares import CREDITS_A_PLACE, PlaceShares
from actors.units import base58_text, json_integer
from actors.webhooks import api, core
from actors.webhooks.payloads import example
from actors.webhooks.registrations import WEBHOOKS_MAX, Webhook, WebhookFilter, parse_change, parse_wanted
from actors.webhooks.sealing import NONCE_BYTES, CannotUnseal, SecretSeal
from actors.webhooks.sender import WebhookSender
from actors.webhooks.signing import PREVIOUS_MAX, PREVIOUS_VALID_MS, SECRET_BYTES, delivery_headers, new_secret
from actors.webhooks.store import LoggedJob, WebhookStore, WebhooksUnavailable
from actors.webhooks.watched_wallets import WALLETS, WALLETS_PAUSED_MS, WatchedWallets

logger = logging.getLogger(__name__)

_ID_BYTES = 12
_REPLAYED_MAX = 1_000
_A_MINUTE_MAX = 10  # Test deliveries, and replays, of one account: both cause unpaid requests.
_COUNTED_ACCOUNTS_MAX = 10_000
# Of answers in a page of deliveries: as JSON up to six times as long, which takes 4 ms to write and as long to read.
_PAGE_ANSWER_BYTES_MAX = 1 << 17
# Registrations in all: half of them only for accounts that pay, so that the next 1,000 of these find all of theirs.
REGISTRATIONS = PlaceShares(total=100_000, kept=50_000, base=WEBHOOKS_MAX, of_one_max=WEBHOOKS_MAX)
_UNIX_SECONDS_MAX = 10**11
_CAUSES_WORK = (api.CreateWebhook, api.ChangeWebhook, api.TryWebhook, api.ReplayWebhook)
_DISABLE = {"status": "disabled"}
_NONE = Refusal(Err.NOT_FOUND, "this account has no such webhook; GET /webhooks lists those that it has")
_AWAY = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the store of webhooks does not answer at the moment")
_REPLAY_SHAPE = Refusal(
    Err.INVALID_REQUEST,
    f'send {{"event_ids": [...]}}, at most {_REPLAYED_MAX}, or {{"from": ..., "to": ...}} in Unix seconds',
)


class WebhookCommands:
    """standing: how an account stands, or why it may make nothing now. changed: called when the set of watched accounts
    or wallets may have changed. withdraw: called with the id of a webhook that gets nothing more as it was leased.
    watched: whose wallets are watched, as the follower of signals has it."""

    def __init__(
        self,
        store: WebhookStore,
        sender: WebhookSender,
        seal: SecretSeal,
        clock: Clock,
        random: Callable[[int], bytes],
        standing: Callable[[bytes], Awaitable[AccountStanding | Refusal]],
        changed: Callable[[], None],
        withdraw: Callable[[str], None] = lambda _: None,
        watched: WatchedWallets | None = None,
    ) -> None:
        self._watched = watched or WatchedWallets()
        self._store, self._sender, self._seal, self._clock = store, sender, seal, clock
        self._random, self._standing, self._changed, self._withdraw = random, standing, changed, withdraw
        self._wallets_turn = asyncio.Lock()  # No other task may run between counting wallets and storing a webhook.
        self._counts: dict[tuple[bytes, str], tuple[int, int]] = {}  # Account and kind to the minute and the requests.

    async def ask(self, command: api.WebhookCommand) -> dict[str, Any] | Refusal:
        """Carry one command out. Returns the body of the answer."""
        try:
            return await self._carry_out(command)
        except WebhooksUnavailable as error:
            logger.warning("webhooks: %s", error)
            return _AWAY

    async def _carry_out(self, command: api.WebhookCommand) -> dict[str, Any] | Refusal:
        balance = 0
        # Disabling is always possible.
        if isinstance(command, _CAUSES_WORK) and getattr(command, "fields", None) != _DISABLE:
            standing = await self._standing(command.pubkey)
            if isinstance(standing, Refusal):
                return standing
            balance = standing.balance
        match command:
            case api.CreateWebhook():
                return await self._create(command, balance)
            case api.ListWebhooks(pubkey):
                return {"webhooks": [webhook.body() for webhook in await self._store.of_account(pubkey)]}
            case api.DeleteWebhook(pubkey, webhook_id):
                if not await self._store.delete(pubkey, webhook_id, self._clock.now_ms()):
                    return _NONE
                self._withdraw(webhook_id)
                self._changed()
                return {"id": webhook_id, "deleted": True}
            case _:
                webhook = await self._store.find(command.pubkey, command.webhook_id)
                return _NONE if webhook is None else await self._about(webhook, command, balance)

    async def _about(self, webhook: Webhook, command: api.WebhookCommand, balance: int) -> dict[str, Any] | Refusal:
        match command:
            case api.ChangeWebhook():
                return await self._change(webhook, command.fields, balance)
            case api.RotateSecret():
                return await self._rotate(webhook)
            case api.ListDeliveries():
                return await self._deliveries(webhook, command)
            case api.TryWebhook():
                return await self._test(webhook)
            case api.ReplayWebhook():
                return await self._replay(webhook, command.fields)
        raise AssertionError(command)

    async def _change(self, webhook: Webhook, fields: Any, balance: int) -> dict[str, Any] | Refusal:
        change = parse_change(fields, webhook.filter)
        if isinstance(change, Refusal):
            return change
        async with self._wallets_turn:
            too_many = None
            if change.filter is not None:
                too_many = await self._too_many_wallets(webhook.pubkey, change.filter, balance)
            if too_many is not None:
                return too_many
            after = await self._store.change(webhook.pubkey, webhook.id, change, self._clock.now_ms())
        if change.enable is False:
            self._withdraw(webhook.id)
        self._changed()
        return _NONE if after is None else {"webhook": after.body()}

    async def _rotate(self, webhook: Webhook) -> dict[str, Any] | Refusal:
        secret = new_secret(self._random(SECRET_BYTES))
        sealed = self._seal.seal(secret, webhook.id, self._random(NONCE_BYTES))
        now_ms = self._clock.now_ms()
        until_ms = now_ms + PREVIOUS_VALID_MS
        possible_ms = await self._store.rotate(webhook.pubkey, webhook.id, sealed, now_ms, until_ms, PREVIOUS_MAX)
        if possible_ms is None:
            return _NONE
        if possible_ms:
            wait_seconds = -(-(possible_ms - now_ms) // 1000)
            reason = f"{PREVIOUS_MAX} earlier secrets are still valid; rotate again in {wait_seconds} s"
            return Refusal(Err.RATE_LIMITED, reason, retry_seconds=wait_seconds)
        self._withdraw(webhook.id)  # Jobs leased with earlier secrets are leased again.
        return {"secret": secret, "previous_valid_until": until_ms // 1000}

    async def _create(self, command: api.CreateWebhook, balance: int) -> dict[str, Any] | Refusal:
        wanted = parse_wanted(command.fields, command.pubkey)
        if isinstance(wanted, Refusal):
            return wanted
        fault = await self._sender.check(wanted.url)
        if fault is not None:
            return Refusal(Err.INVALID_REQUEST, f"url: {fault}")
        webhook_id = f"wh_{self._random(_ID_BYTES).hex()}"
        secret = new_secret(self._random(SECRET_BYTES))
        now_ms = self._clock.now_ms()
        webhook = Webhook(webhook_id, command.pubkey, wanted.url, wanted.filter, "active", None, now_ms)
        async with self._wallets_turn:
            too_many = await self._too_many_wallets(command.pubkey, wanted.filter, balance)
            too_many = too_many or await self._too_many_webhooks(command.pubkey, balance)
            if too_many is not None:
                return too_many
            if not await self._store.create(webhook, self._seal.seal(secret, webhook_id, self._random(NONCE_BYTES))):
                return Refusal(Err.INVALID_REQUEST, f"an account has at most {WEBHOOKS_MAX} webhooks; delete one first")
        self._changed()
        return webhook.body() | {"secret": secret}

    async def _too_many_wallets(self, pubkey: bytes, wanted: WebhookFilter, balance: int) -> Refusal | None:
        """Refuse if the account would watch more wallets than it may; the total of watched wallets is bounded."""
        if not wanted.wallets:
            return None
        paused_before_ms = self._clock.now_ms() - WALLETS_PAUSED_MS
        named = await self._store.named_wallets(paused_before_ms)
        before, everybody = named.get(pubkey, frozenset()), self._watched.of(named)
        after, own = before.union(wanted.wallets), len(before) if self._watched.is_holder(pubkey) else 0
        if len(after) > WALLETS.of_one_max:
            return Refusal(Err.INVALID_REQUEST, f"webhooks of an account name at most {WALLETS.of_one_max} wallets")
        if after == before or len(after) <= (most := WALLETS.most(own, len(everybody), balance)):
            return None
        if len(after) * CREDITS_A_PLACE > balance:
            needed = len(after) * CREDITS_A_PLACE
            return Refusal(Err.INSUFFICIENT_CREDITS, f"{len(after)} watched wallets need a balance of {needed} credits")
        reason = f"this service watches at most {most} wallets for this account at the moment"
        return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, reason)

    async def _too_many_webhooks(self, pubkey: bytes, balance: int) -> Refusal | None:
        """Refuse if the remaining registrations are reserved for paying accounts."""
        own, taken = await self._store.registered(pubkey)
        most = max(REGISTRATIONS.most(own, taken, balance), REGISTRATIONS.most_unpaid(own, taken))
        if own >= WEBHOOKS_MAX or own < most:  # The store refuses an account's surplus webhook.
            return None
        needed = (own + 1) * CREDITS_A_PLACE
        if balance < needed:
            reason = f"this service has many webhooks at the moment: {own + 1} need a balance of {needed} credits"
            return Refusal(Err.INSUFFICIENT_CREDITS, reason)
        return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "this service has no place for a webhook at the moment")

    async def _deliveries(self, webhook: Webhook, command: api.ListDeliveries) -> dict[str, Any] | Refusal:
        before = None if command.before is None else core.job_of(webhook.id, command.before)
        if command.before is not None and before is None:
            return Refusal(Err.INVALID_REQUEST, "before must be an event id of this webhook")
        jobs = await self._store.log(webhook.id, before, command.limit, _PAGE_ANSWER_BYTES_MAX)
        dropped = await self._store.dropped(webhook.id)
        last = None if dropped.at_ms is None else {"events": dropped.events, "last_at": dropped.at_ms // 1000}
        page = [_logged(webhook.id, job) for job in _of_one_page(jobs)]
        may_have_more = len(jobs) == command.limit or len(page) < len(jobs)
        return {"deliveries": page, "next_before": page[-1]["event_id"] if may_have_more else None, "dropped": last}

    async def _test(self, webhook: Webhook) -> dict[str, Any] | Refusal:
        now = self._clock.now()
        too_many = self._count(webhook.pubkey, "tests")
        if too_many is not None:
            return too_many
        sealed = await self._store.secrets(webhook.id)
        if sealed is None:
            return _NONE
        try:
            secrets = [self._seal.unseal(each, webhook.id) for each in sealed.valid(self._clock.now_ms())]
        except CannotUnseal as error:
            logger.error("%s: was the cluster's secret changed?", error)
            return Refusal(Err.INVALID_REQUEST, "the secret of this webhook cannot be read; rotate it")
        body = example(webhook.filter, base58_text(webhook.pubkey), now)
        event_id = f"evt_test_{self._random(_ID_BYTES).hex()}"
        headers = delivery_headers(secrets, webhook.id, event_id, now, body)
        attempt = await self._sender.send(webhook.url, headers, body)
        return {"event_id": event_id, "delivered": attempt.is_success, **_tried(attempt)}

    def _count(self, pubkey: bytes, kind: str) -> Refusal | None:
        """Count one of an account's requests of this kind. Returns a refusal when there were too many in this
        minute."""
        this_minute, second = divmod(self._clock.now(), 60)
        minute, count = self._counts.get((pubkey, kind), (0, 0))
        count = count + 1 if minute == this_minute else 1
        if count > _A_MINUTE_MAX:
            return Refusal(Err.RATE_LIMITED, f"at most {_A_MINUTE_MAX} {kind} a minute", retry_seconds=60 - second)
        if len(self._counts) >= _COUNTED_ACCOUNTS_MAX:
            self._counts.clear()
        self._counts[pubkey, kind] = (this_minute, count)
        return None

    async def _replay(self, webhook: Webhook, fields: Any) -> dict[str, Any] | Refusal:
        now_ms = self._clock.now_ms()
        if not isinstance(fields, dict):
            return _REPLAY_SHAPE
        if set(fields) == {"event_ids"}:
            texts = fields["event_ids"]
            if not isinstance(texts, list) or not 1 <= len(texts) <= _REPLAYED_MAX:
                return _REPLAY_SHAPE
            jobs = [core.job_of(webhook.id, text) if isinstance(text, str) else None for text in texts]
            known = [job for job in jobs if job is not None]
            if len(known) < len(jobs):
                return Refusal(Err.INVALID_REQUEST, "event_ids must be event ids of this webhook")
            too_many = self._count(webhook.pubkey, "replays")
            return too_many or {"replayed": await self._store.replay(webhook.id, known, 0, 0, now_ms, _REPLAYED_MAX)}
        times = [time for name in ("from", "to") if (time := json_integer(fields.get(name))) is not None]
        if set(fields) != {"from", "to"} or len(times) < 2 or not all(0 <= time <= _UNIX_SECONDS_MAX for time in times):
            return _REPLAY_SHAPE
        first, last = (time * 1_000 for time in times)
        if last < first:
            return Refusal(Err.INVALID_REQUEST, "from must not be after to")
        too_many = self._count(webhook.pubkey, "replays")
        if too_many is not None:
            return too_many
        return {"replayed": await self._store.replay(webhook.id, None, first, last + 999, now_ms, _REPLAYED_MAX)}


def _of_one_page(jobs: Sequence[LoggedJob]) -> Sequence[LoggedJob]:
    """Return the first deliveries whose answers together are small enough for a page; at least one."""
    size = 0
    for number, job in enumerate(jobs):
        size += sum(len(answer) for *_, answer in job.tried)
        if number and size > _PAGE_ANSWER_BYTES_MAX:
            return jobs[:number]
    return jobs


def _logged(webhook_id: str, job: LoggedJob) -> dict[str, Any]:
    state = core.JobState(job.state)
    is_over = state >= core.JobState.DELIVERED
    return {
        "event_id": core.event_id(webhook_id, job.id),
        "status": core.STATUS_NAMES[state],
        "created_at": job.created_ms // 1000,
        "next_attempt_at": None if is_over else job.due_ms // 1000,
        "attempts": [
            {"at": at_ms // 1000, **_tried(core.Attempt(at_ms, latency_ms, http_status, error, None, answer))}
            for at_ms, latency_ms, http_status, error, answer in job.tried
        ],
    }


def _tried(attempt: core.Attempt) -> dict[str, Any]:
    return {
        "http_status": attempt.http_status,
        "latency_ms": attempt.latency_ms,
        "error": attempt.error or None,
        "response": attempt.answer.decode("utf-8", "replace"),
    }
