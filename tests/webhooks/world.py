"""A dispatcher with a real PostgreSQL, real receivers on this machine, and account owners in the process."""

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from actors.ownership.held import HeldSlices
from actors.pages import Page
from actors.webhooks.actor import WebhookDispatcher
from actors.webhooks.api import WebhookCommand
from actors.webhooks.commands import WebhookCommands
from actors.webhooks.core import Attempt
from actors.webhooks.endpoints import WebhookPages
from actors.webhooks.payloads import QueuedEvent
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.resolver import GuardedResolver
from actors.webhooks.sealing import SecretSeal
from actors.webhooks.sender import WebhookSender
from actors.webhooks.standings import Standings
from actors.webhooks.targets import EgressRules
from tests.databases import emptied
from tests.gateway.world import Wallet, World, a_world

from .owned_webhooks import holding_all

DAY_MS = 86_400_000
NO_WEBHOOKS = "TRUNCATE webhooks, webhook_events, webhook_debts, webhook_cursor, webhook_facts, account_events CASCADE"
RULES = EgressRules(allow_loopback=True)


class Sending:
    """The sender, and how many requests it was asked for; `scripted` answers in its place, per URL."""

    def __init__(self, sender: WebhookSender) -> None:
        self._sender = sender
        self.scripted: dict[str, Attempt] = {}

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempt:
        found = self.scripted.get(url)
        return await self._sender.send(url, headers, body) if found is None else found


class WebhookWorld:
    def __init__(self, gateway: World, pool: Any, pages: "LatePages", held: HeldSlices) -> None:
        self.gateway, self.pool, self.clock = gateway, pool, gateway.clock
        self.held = held
        self.store = PostgresWebhookStore(pool, held)
        self.seal = SecretSeal(b"s" * 32)
        self.sender = WebhookSender(RULES, GuardedResolver(RULES), gateway.clock, None, 5.0)
        self.sending = Sending(self.sender)
        self.changes = 0
        standing = Standings(gateway.accounts).one
        self.commands = WebhookCommands(
            self.store, self.sender, self.seal, self.clock, os.urandom, standing, self._changed
        )
        pages.commands = self.commands
        self.dispatcher = self.new_dispatcher()
        self._events = itertools.count()

    def _changed(self) -> None:
        self.changes += 1

    def new_dispatcher(self, name: str = "dispatcher") -> WebhookDispatcher:
        return WebhookDispatcher(
            name,
            self.store,
            self.sending,
            self.gateway.accounts,
            self.seal,
            self.clock,
            self.gateway.metrics,
            self.held,
            kept_ms=7 * DAY_MS,
            jitter=lambda low, high: 0.0,
        )

    async def have_patience(self, seconds: float) -> None:
        """Let an attempt take so long from now on."""
        await self.sender.close()
        self.sender = WebhookSender(RULES, GuardedResolver(RULES), self.clock, None, seconds)
        self.sending = Sending(self.sender)
        self.dispatcher = self.new_dispatcher()

    async def request(self, customer: Wallet, method: str, path: str, body: Any = None) -> httpx.Response:
        """Through the real door, with an API key. The clock moves: the address has a limit for a minute."""
        self.clock.advance(1.1)
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"x-api-key": customer.api_key}
        return await self.gateway.http.request(method, path, content=content, headers=headers)

    async def register(self, customer: Wallet, url: str, **fields: Any) -> dict[str, Any]:
        wanted = {"url": url, "filter_type": "my_account"} | fields
        response = await self.request(customer, "POST", "/webhooks", wanted)
        assert response.status_code == 201, response.text
        made: dict[str, Any] = response.json()
        return made

    def event(self, subject: str, filter_type: str = "my_account", **fields: Any) -> QueuedEvent:
        number = next(self._events)
        body = json.dumps({"event": "transaction", "number": number} | fields)
        is_free = filter_type == "lifecycle"
        return QueuedEvent(
            *(f"test:{number}", filter_type, subject, None, None, self.clock.now_ms(), body), is_free=is_free
        )

    async def queue(self, subject: str, count: int = 1, filter_type: str = "my_account") -> int:
        events = [self.event(subject, filter_type) for _ in range(count)]
        return await self.store.queue(events, self.clock.now_ms())

    async def deliver(self) -> None:
        """Send all that is due now, and keep what came of it."""
        while await self.dispatcher.claim_once():
            while self.dispatcher._requests or self.dispatcher._ended:
                if self.dispatcher._requests:
                    await asyncio.wait(tuple(self.dispatcher._requests), return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)
                if self.dispatcher._has_ended.is_set():
                    await self.dispatcher.finish_once()

    async def log(self, customer: Wallet, webhook: Mapping[str, Any]) -> list[dict[str, Any]]:
        response = await self.request(customer, "GET", f"/webhooks/{webhook['id']}/deliveries")
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["deliveries"]
        return found

    async def record(self, customer: Wallet, webhook: Mapping[str, Any]) -> dict[str, Any]:
        found = (await self.request(customer, "GET", "/webhooks")).json()["webhooks"]
        (one,) = [each for each in found if each["id"] == webhook["id"]]
        record: dict[str, Any] = one
        return record


class LatePages:
    """Pages for a door that is made before the commands are."""

    commands: WebhookCommands

    async def ask(self, command: WebhookCommand) -> Any:
        return await self.commands.ask(command)

    def pages(self) -> list[Page]:
        return WebhookPages(self.ask).pages()


@contextlib.asynccontextmanager
async def a_webhook_world(postgres_url: str, owner_url: str, **settings: Any) -> AsyncIterator[WebhookWorld]:
    late = LatePages()
    limits = {"address_requests_per_minute": 10_000}
    async with (
        emptied(postgres_url, owner_url, NO_WEBHOOKS) as pool,
        a_world(pages=late.pages(), identity=limits, **settings) as gateway,
    ):
        world = WebhookWorld(gateway, pool, late, await holding_all(pool))
        try:
            yield world
        finally:
            await world.dispatcher.stop()
            await world.sender.close()
