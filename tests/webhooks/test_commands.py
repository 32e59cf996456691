"""The pages of webhooks through the real door, the guard and the database included."""

import pytest

from actors.accounts.api import SetStatus
from actors.place_shares import PlaceShares
from actors.units import base58_text
from actors.webhooks import commands
from actors.webhooks.core import JobState
from actors.webhooks.registrations import WEBHOOKS_MAX
from actors.webhooks.store import LoggedJob
from actors.webhooks.watched_wallets import WALLETS_PAUSED_MS
from tests.gateway.world import Wallet

from .outside import Receiver
from .world import WebhookWorld

ADDRESS = "So11111111111111111111111111111111111111112"


async def test_a_webhook_lives_as_the_interface_says(world: WebhookWorld, target: Receiver) -> None:
    """Interface, "Webhook management": created with its secret, listed without, rotated, deleted."""
    customer = await world.gateway.customer(5)
    made = await world.register(customer, target.url, filter_type="account", filter_value=ADDRESS)
    assert made["ok"] is True and made["secret"].startswith("whsec_")
    listed = (await world.request(customer, "GET", "/webhooks")).json()["webhooks"]
    assert listed == [{name: value for name, value in made.items() if name not in ("ok", "secret")}]
    assert listed[0] == {
        "id": made["id"],
        "url": target.url,
        "filter_type": "account",
        "filter_value": ADDRESS,
        "lifecycle_events": None,
        "signal_events": None,
        "status": "active",
        "disabled_reason": None,
        "created_at": listed[0]["created_at"],
        "last_delivery": None,
    }
    rotated = await world.request(customer, "POST", f"/webhooks/{made['id']}/rotate-secret", {})
    assert rotated.json()["secret"] != made["secret"]
    assert rotated.headers["cache-control"] == "no-store"
    assert (await world.request(customer, "DELETE", f"/webhooks/{made['id']}")).status_code == 200
    assert (await world.request(customer, "GET", "/webhooks")).json()["webhooks"] == []
    assert world.changes == 2
    assert await world.gateway.balance(customer) == 5


async def test_nobody_sees_or_touches_the_webhooks_of_another(world: WebhookWorld, target: Receiver) -> None:
    """Every path answers as if the webhook were not there."""
    owner, stranger = await world.gateway.customer(5), await world.gateway.customer(5)
    made = await world.register(owner, target.url)
    path = f"/webhooks/{made['id']}"
    for method, suffix, body in (
        ("DELETE", "", None),
        ("PATCH", "", {"status": "disabled"}),
        ("POST", "/rotate-secret", {}),
        ("GET", "/deliveries", None),
        ("POST", "/test", {}),
        ("POST", "/replay", {"from": 0, "to": 1}),
    ):
        response = await world.request(stranger, method, path + suffix, body)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND"), suffix
        assert response.json()["error"]["message"].startswith("not found: this account has no such webhook"), suffix
    assert (await world.request(stranger, "GET", "/webhooks")).json()["webhooks"] == []
    assert (await world.request(owner, "GET", "/webhooks")).json()["webhooks"][0]["status"] == "active"
    assert target.delivered == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "JSON"),
        ([], "JSON object"),
        ({"filter_type": "my_account"}, "url"),
        ({"url": "https://169.254.169.254/", "filter_type": "my_account"}, "public network"),
        ({"url": "http://example.com/", "filter_type": "my_account"}, "https"),
        (
            {"url": "TARGET", "filter_type": "lifecycle", "lifecycle_events": ["tx.confirmed"]},
            "unknown lifecycle event",
        ),
        ({"url": "TARGET", "filter_type": "signal", "signal_events": ["swap"]}, "newPair"),
    ],
)
async def test_a_registration_in_doubt_is_refused_for_free(
    world: WebhookWorld, target: Receiver, body: object, words: str
) -> None:
    """400 with a sentence; nothing is kept. The words of the interface for unknown lifecycle events."""
    customer = await world.gateway.customer(5)
    if isinstance(body, dict) and body.get("url") == "TARGET":
        body["url"] = target.url
    response = await world.request(customer, "POST", "/webhooks", body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert words in response.json()["error"]["message"]
    assert (await world.request(customer, "GET", "/webhooks")).json()["webhooks"] == []


async def test_an_account_has_at_most_fifty(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "webhook record"."""
    customer = await world.gateway.customer(5)
    for _ in range(WEBHOOKS_MAX):
        await world.register(customer, target.url)
    refused = await world.request(customer, "POST", "/webhooks", {"url": target.url, "filter_type": "my_account"})
    assert refused.status_code == 400 and "at most 50" in refused.text


@pytest.mark.threat(68)
async def test_registrations_of_those_who_pay_nothing_leave_some_for_those_who_pay(
    world: WebhookWorld, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 68: whoever fills the others, a part of all registrations is for accounts with a balance."""
    monkeypatch.setattr(commands, "REGISTRATIONS", PlaceShares(total=8, kept=4, base=2, of_one_max=50))
    wanted = {"url": target.url, "filter_type": "my_account"}
    poor, rich, late = [await world.gateway.customer(credits) for credits in (0, 100, 25)]

    async def made(customer: Wallet) -> int:
        return (await world.request(customer, "POST", "/webhooks", wanted)).status_code

    assert [await made(poor) for _ in range(5)] == [201] * 4 + [402]
    assert [await made(rich) for _ in range(3)] == [201, 201, 503]
    assert [await made(late) for _ in range(3)] == [201, 201, 402]
    assert await made(poor) == 402 and await world.store.registered(poor.pubkey) == (4, 8)


async def test_the_wallets_of_webhooks_are_bounded(
    world: WebhookWorld, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals are reported for so many wallets: no account may use them up, and nobody is promised what is not told."""
    monkeypatch.setattr(commands, "WALLETS", PlaceShares(total=4, kept=4, base=3, of_one_max=3))
    customer, other = await world.gateway.customer(50), await world.gateway.customer(50)
    keys = [base58_text(bytes([number]) * 32) for number in range(6)]
    made = await world.register(customer, target.url, filter_type="signal", wallets=keys[:3])
    body = {"url": target.url, "filter_type": "signal", "wallets": keys[2:4]}
    refused = await world.request(customer, "POST", "/webhooks", body)
    assert refused.status_code == 400 and "at most 3 wallets" in refused.text
    await world.register(other, target.url, filter_type="signal", wallets=keys[3:4])
    refused = await world.request(other, "POST", "/webhooks", body | {"wallets": keys[4:5]})
    assert refused.status_code == 503
    path = f"/webhooks/{made['id']}"
    assert (await world.request(customer, "PATCH", path, {"wallets": keys[:4]})).status_code == 400
    changed = await world.request(customer, "PATCH", path, {"wallets": None, "min_lamports": 7})
    assert changed.json()["webhook"]["min_lamports"] == 7 and "wallets" not in changed.json()["webhook"]


async def test_wallets_are_watched_for_those_who_pay(
    world: WebhookWorld, target: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 68: accounts without credits fill no places, and what they had is given back after ten minutes.
    Whatever the others hold, an account that pays finds some."""
    monkeypatch.setattr(commands, "WALLETS", PlaceShares(total=20, kept=8, base=2, of_one_max=10))
    keys = iter(base58_text(bytes([number]) * 32) for number in range(200))

    async def watch(customer: Wallet, count: int) -> int:
        body = {"url": target.url, "filter_type": "signal", "wallets": [next(keys) for _ in range(count)]}
        return (await world.request(customer, "POST", "/webhooks", body)).status_code

    async def watched(paused_before_ms: int) -> int:
        return len(frozenset[str]().union(*(await world.store.named_wallets(paused_before_ms)).values()))

    for _ in range(10):
        assert await watch(await world.gateway.customer(0), 1) == 402
    rich = [await world.gateway.customer(1_000) for _ in range(3)]
    for customer in rich * 10:
        await watch(customer, 2)
        await watch(customer, 1)
    held = await watched(0)
    assert 6 <= held <= 12 + 6
    newcomer = await world.gateway.customer(25)
    assert (await watch(newcomer, 3), await watch(newcomer, 2)) == (402, 201)

    await world.gateway.grant(newcomer, -25)
    await world.dispatcher.care_once()
    now_ms = world.clock.now_ms()
    assert await watched(now_ms - WALLETS_PAUSED_MS) == held + 2
    now_ms += WALLETS_PAUSED_MS + 1
    assert await watched(now_ms - WALLETS_PAUSED_MS) == held


async def test_a_suspended_account_makes_no_webhooks(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "account `status`": 403; it may look, disable and delete."""
    customer = await world.gateway.customer(50)
    made = await world.register(customer, target.url)
    await world.gateway.accounts.ask(SetStatus(customer.pubkey, "suspended", "test"))
    path = f"/webhooks/{made['id']}"
    for method, at, body in (
        ("POST", "/webhooks", {"url": target.url, "filter_type": "my_account"}),
        ("PATCH", path, {"status": "active"}),
        ("POST", f"{path}/test", {}),
        ("POST", f"{path}/replay", {"from": 0, "to": 1}),
    ):
        refused = await world.request(customer, method, at, body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "METHOD_NOT_ALLOWED"), at
    assert target.delivered == []
    assert (await world.request(customer, "PATCH", path, {"status": "disabled"})).status_code == 200
    listed = (await world.request(customer, "GET", "/webhooks")).json()["webhooks"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert (await world.request(customer, "DELETE", path)).status_code == 200


async def test_a_test_delivery_is_signed_free_and_rated(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "webhook test": `evt_test_...`, free, ten a minute; the answer tells what came of it."""
    customer = await world.gateway.customer(5)
    made = await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["api_key.rotated"])
    path, tell = f"/webhooks/{made['id']}/test", []
    world.clock.advance(60 - world.clock.now() % 60)
    for _ in range(11):
        tell.append(await world.request(customer, "POST", path, {}))
    assert [response.status_code for response in tell] == [200] * 10 + [429]
    told = tell[0].json()
    assert told["event_id"].startswith("evt_test_")
    assert (told["delivered"], told["http_status"]) == (True, 204)
    assert target.delivered[0].event_id == told["event_id"]
    assert b'"api_key.rotated"' in target.delivered[0].body
    assert await world.gateway.balance(customer) == 5


async def test_changes_are_of_events_and_of_the_status(world: WebhookWorld, target: Receiver) -> None:
    """PATCH: the events of its type, or enabling again; nothing else."""
    customer = await world.gateway.customer(5)
    made = await world.register(customer, target.url, filter_type="lifecycle", lifecycle_events=["low_balance"])
    path = f"/webhooks/{made['id']}"
    changed = await world.request(customer, "PATCH", path, {"lifecycle_events": ["deposit.credited", "low_balance"]})
    assert changed.json()["webhook"]["lifecycle_events"] == ["deposit.credited", "low_balance"]
    disabled = await world.request(customer, "PATCH", path, {"status": "disabled"})
    assert disabled.json()["webhook"]["disabled_reason"] == "by its owner"
    for body in (
        {},
        {"url": "https://example.com/"},
        {"status": "gone"},
        {"signal_events": ["newPair"]},
        {"secret": 1},
    ):
        assert (await world.request(customer, "PATCH", path, body)).status_code == 400


async def test_replays_are_of_a_time_or_of_events(world: WebhookWorld, target: Receiver) -> None:
    """Decisions, "webhook replay": at most 1,000 ids; ids of this webhook alone."""
    customer = await world.gateway.customer(50)
    made = await world.register(customer, target.url)
    start = world.clock.now()
    await world.queue(customer.text, 3)
    await world.deliver()
    path, ids = f"/webhooks/{made['id']}/replay", [each.event_id for each in target.delivered]
    for body in (
        *({}, [], {"event_ids": []}, {"event_ids": ["x"] * 1_001}, {"from": 1}, {"from": "1", "to": 2}),
        *({"from": True, "to": 2}, {"event_ids": ["evt_wh_x_1"]}, {"event_ids": [1]}, {"event_ids": ids, "from": 1}),
        *({"from": start + 5, "to": start - 5}, {"from": 1.5, "to": 2}, {"from": 0, "to": 10**30}, {"from": None}),
    ):
        assert (await world.request(customer, "POST", path, body)).status_code == 400, body
    by_time = await world.request(customer, "POST", path, {"from": start - 5, "to": start + 5})
    assert by_time.json()["replayed"] == 3
    await world.deliver()
    assert sorted(each.event_id for each in target.delivered[3:]) == sorted(ids)
    assert (await world.request(customer, "POST", path, {"event_ids": [ids[0], ids[0]]})).json()["replayed"] == 1
    await world.deliver()
    assert await world.gateway.balance(customer) == 47


async def test_a_wrong_request_is_refused_in_the_interfaces_form_and_costs_nothing(
    world: WebhookWorld, target: Receiver
) -> None:
    """Interface, "HTTP statuses and bodies": 400, the constant, a message and the request's id; nothing is made,
    changed, sent or charged."""
    customer = await world.gateway.customer(50)
    made = await world.register(customer, target.url)
    before, own = await world.record(customer, made), f"/webhooks/{made['id']}"
    plain = {"url": target.url, "filter_type": "my_account"}
    wrong: list[tuple[str, str, object]] = [
        *(("POST", "/webhooks", body) for body in (b"", b"{", b"null", b"[" * 90_000, b'{"url":1e999}', [plain], 5)),
        *(("POST", "/webhooks", plain | field) for field in ({"url": [target.url]}, {"secret": "x"}, {"url": ""})),
        *(("POST", "/webhooks", plain | {"filter_type": kind}) for kind in (["signal"], {}, None, "SIGNAL")),
        *(("POST", "/webhooks", plain | {"filter_type": "signal", "wallets": [customer.text] * n}) for n in (0, 5_000)),
        *(
            ("POST", "/webhooks", plain | {"url": url})
            for url in (
                "https://2130706433/",
                "https://a.example:port/",
                "https://u:p@a.example/",
                "https://a.example/\0",
            )
        ),
        *(("PATCH", own, body) for body in ({}, b"", b"null", [], {"url": target.url}, {"status": None}, {"mint": 5})),
        *(("POST", f"{own}/{action}", {"secret": "mine"}) for action in ("rotate-secret", "test")),
        *(("POST", f"{own}/replay", body) for body in ({"event_ids": {}}, {"from": 2, "to": 1}, b"\xff")),
    ]
    for method, path, body in wrong:
        refused = await world.request(customer, method, path, body)
        assert refused.status_code == 400, (method, path, body, refused.text)
        error = refused.json()["error"]
        assert set(error) == {"code", "constant", "message", "requestId", "source"}, error
        assert error["code"] == error["constant"] == "INVALID_REQUEST"
        assert error["requestId"] == refused.headers["x-request-id"]
    assert await world.record(customer, made) == before and target.delivered == []
    assert len((await world.request(customer, "GET", "/webhooks")).json()["webhooks"]) == 1
    assert await world.gateway.balance(customer) == 50


async def test_the_log_is_read_in_pages(world: WebhookWorld, target: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page says where the next one begins, also where it ends before the limit."""
    customer = await world.gateway.customer(50)
    made = await world.register(customer, target.url)
    await world.queue(customer.text, 5)
    await world.deliver()
    path = f"/webhooks/{made['id']}/deliveries"
    page = (await world.request(customer, "GET", f"{path}?limit=2")).json()
    first, before = page["deliveries"], page["next_before"]
    assert before == first[-1]["event_id"]
    rest = (await world.request(customer, "GET", f"{path}?limit=500&before={before}")).json()
    assert len(first) == 2 and len(rest["deliveries"]) == 3 and rest["next_before"] is None
    monkeypatch.setattr(commands, "_PAGE_ANSWER_BYTES_MAX", -1)  # So every page ends after one delivery.
    seen, before = [], ""
    while before is not None:
        page = (await world.request(customer, "GET", f"{path}?limit=4{before and f'&before={before}'}")).json()
        seen += page["deliveries"]
        before = page["next_before"]
    assert seen == first + rest["deliveries"]
    assert first[0]["attempts"][0]["latency_ms"] >= 0
    for query in ("limit=0", "limit=501", "limit=x", "before=evt_other_1"):
        assert (await world.request(customer, "GET", f"{path}?{query}")).status_code == 400


async def test_replays_cannot_be_made_a_flood(world: WebhookWorld, target: Receiver) -> None:
    """Nobody pays for a replay: ten a minute, and no more than a thousand jobs of it wait at once."""
    customer = await world.gateway.customer(2_000)
    made = await world.register(customer, target.url)
    await world.queue(customer.text, 1_100)
    await world.pool.execute("UPDATE webhook_jobs SET state = 2")
    body, replayed = {"from": 0, "to": 10**10}, []
    world.clock.advance(60 - world.clock.now() % 60)
    for _ in range(11):
        replayed.append(await world.request(customer, "POST", f"/webhooks/{made['id']}/replay", body))
    assert [response.status_code for response in replayed] == [200] * 10 + [429]
    assert [response.json()["replayed"] for response in replayed[:3]] == [1_000, 0, 0]
    assert int(replayed[-1].headers["retry-after"]) == 60 - world.clock.now() % 60


def test_a_page_of_deliveries_ends_before_its_answers_are_too_long() -> None:
    """500 deliveries with 16 attempts each would be a page of 48 MB. At least one is in it."""

    def job(number: int, size: int) -> LoggedJob:
        return LoggedJob(number, JobState.FAILED, 1, 0, 0, ((0, 1, 500, "", b"x" * size),))

    page = 1 << 17
    few = [job(number, page // 4) for number in range(6)]
    assert list(commands._of_one_page(few)) == few[:4]
    assert list(commands._of_one_page([job(1, 2 * page), job(2, 1)])) == [job(1, 2 * page)]
    assert list(commands._of_one_page([])) == []
