"""The dispatcher's actor class over real PostgreSQL, without Ray."""

import asyncio
from typing import Any

import pytest
from pydantic import SecretStr

from actors.actor_settings import part_of
from actors.config import Config, ServeConfig, StorageConfig, WebhooksConfig
from actors.telemetry import logs, metrics_page
from actors.upstream import replies
from actors.webhooks import host
from actors.webhooks.api import CreateWebhook, ListWebhooks, NotMine
from actors.webhooks.host import WebhookDispatcherActor, egress_rules
from actors.webhooks.slices import SLICES, SOURCES_SLICE
from actors.webhooks.targets import url_fault

from .outside import Receiver
from .world import WebhookWorld


class Silent:
    async def call(self, method: str, params: bytes, timeout_ms: int) -> replies.NodeAnswer:
        return replies.TIMED_OUT


class QuietFeed:
    async def newest(self) -> str:
        return "0-0"

    async def read(self, after_cursor: str, count: int, wait_ms: int = 0) -> Any:
        await asyncio.Event().wait()

    async def watch(self, wallets: Any, now: int) -> None: ...


async def test_the_first_call_starts_it_and_its_commands_work(
    world: WebhookWorld, target: Receiver, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An actor that Ray restarted begins with its first call."""
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(metrics_page, "tune_gc", lambda: None)

    async def open_owners(_: Config) -> Any:
        return world.gateway.accounts

    async def open_node(_: Config) -> Any:
        return Silent()

    config = Config(
        storage=StorageConfig(postgres_url=SecretStr(postgres_url), cluster_secret=SecretStr("s" * 32)),
        webhooks=WebhooksConfig(allow_loopback=True),
    )

    async def open_feed(_: Config) -> Any:
        return QuietFeed(), ()

    openers = open_owners, open_node, open_feed
    made = WebhookDispatcherActor(part_of(config, host.USES), "fingerprint", "webhook-dispatcher", *openers)
    placed: dict[str, Any] = {}
    shared: dict[str, bool] = {}

    def place(_: type, name: str, *more: Any, may_share: bool) -> None:
        placed[name], shared[name] = more, may_share

    monkeypatch.setattr(host.hosting, "place", place)
    customer = await world.gateway.customer(5)
    fields = {"url": target.url, "filter_type": "my_account"}
    assert await made.ask(ListWebhooks(customer.pubkey)) == NotMine(), "it does not hold the slice yet"
    await made.take(list(range(SLICES)))
    created = await made.ask(CreateWebhook(customer.pubkey, fields=fields))
    assert isinstance(created, dict) and created["secret"]
    listed = await made.ask(ListWebhooks(customer.pubkey))
    assert isinstance(listed, dict) and len(listed["webhooks"]) == 1
    health = {"waiting": 0, "slices": SLICES, "follows_sources": True, "streaming": False}
    assert await made.health() == health
    await made.scale(2)
    assert await made.spread() == {"wanted": 2, "is_even": False, "slices": {"webhook-dispatcher": SLICES}}
    made._place("webhook-dispatcher-1")
    made._place("webhook-dispatcher")
    # In a local run the first is one of the small actors; those that an operator wants beside it are not.
    assert shared == {"webhook-dispatcher": True, "webhook-dispatcher-1": False}
    other = WebhookDispatcherActor(*placed["webhook-dispatcher-1"][1:])
    assert other._name == "webhook-dispatcher-1" and await other.fingerprint() == "fingerprint"
    with pytest.raises(AssertionError):
        await made.scale(17)
    await made.scale(1)
    assert await made.spread() == {"wanted": 1, "is_even": True, "slices": {"webhook-dispatcher": SLICES}}
    await made.give([SOURCES_SLICE])
    assert await made.health() == health | {"slices": SLICES - 1, "follows_sources": False}
    assert await made.fingerprint() == "fingerprint"
    for part in (made._background, made._dispatcher):
        await part.stop()
    made._reporting.cancel()


def test_our_own_name_is_no_target_and_loopback_is_off_by_default() -> None:
    """Threat 26: our own hostname; the development switch is a choice."""
    rules = egress_rules(Config(serve=ServeConfig(public_url="https://rpc.example.com")))
    assert url_fault("https://rpc.example.com/", rules) is not None
    assert url_fault("http://127.0.0.1/", rules) is not None
    assert not rules.allow_loopback and rules.ports == {443, 8443}
