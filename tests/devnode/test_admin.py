from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from devnode.admin import ACTIONS_MAX, MARKETS_MAX, admin_routes
from devnode.chain.pacemaker import Pacemaker
from devnode.chain.snapshots import SNAPSHOTS_MAX
from devnode.encoding.addresses import USDC_MINT
from devnode.faults.plan import FaultPlan, Once
from devnode.geyser.hub import GrpcHub
from devnode.geyser.outbox import Outbox
from devnode.pubsub.connection import Connection
from devnode.pubsub.hub import PubsubHub
from devnode.pubsub.topics import SlotTopic
from devnode.rpc.asgi import Reply
from devnode.rpc.http import HttpDoor

from .local_node import LocalNode
from .pad import Pad


def posted(pad: Pad, name: str, fields: dict[str, object]) -> Reply:
    headers = [(b"content-type", b"application/json")]
    scope = {"method": "POST", "client": ("127.0.0.1", 5), "headers": headers}
    return admin_routes(pad.local.node)["POST", f"/admin/{name}"](scope, orjson.dumps(fields))


def test_a_launch_answers_with_addresses_and_signatures(pad: Pad) -> None:
    reply = posted(pad, "launch", {"kind": "mayhem", "trades": 1})
    shown = orjson.loads(reply.body)
    assert reply.status == 200 and shown["ok"] and shown["is_mayhem"] and len(shown["signatures"]) == 2
    assert (shown["curve_type"], shown["quote_asset"]) == ("classic", "SOL")
    assert int(shown["virtual_quote_reserves"]) > 30 * 10**9


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("launch", {"kind": 5}),
        ("launch", {"kind": "x"}),
        ("launch", {"trades": "3"}),
        ("launch", {"trades": True}),
        ("launch", {"quote": "EUR"}),
        ("launch", {"colour": "red"}),
        ("market", {}),
        ("market", {"seed": -1}),
        ("market", {"seed": True}),
        ("market", {"seed": "1"}),
        ("market", {"seed": 1, "actions": 0}),
        ("market", {"seed": 1, "actions": ACTIONS_MAX + 1}),
        ("market", {"seed": 1, "colour": "red"}),
        ("market", {"seed": 2**63}),
    ],
)
def test_bad_requests_launch_nothing_and_begin_no_market(pad: Pad, name: str, fields: dict[str, object]) -> None:
    before = pad.local.chain.transaction_count
    reply = posted(pad, name, fields)
    assert reply.status == 400 and orjson.loads(reply.body)["ok"] is False
    assert pad.local.chain.transaction_count == before


def test_a_launch_that_fails_says_why(pad: Pad) -> None:
    reply = posted(pad, "launch", {"symbol": "MUCHTOOLONG"})
    assert reply.status == 500 and "custom program error: 0x179c" in orjson.loads(reply.body)["error"]


def test_a_market_goes_on_with_the_next_call(pad: Pad) -> None:
    """Each answer has the new transactions, with what they must be read as; a forgotten seed is refused."""
    signatures = set()
    for _ in range(2):
        reply = posted(pad, "market", {"seed": 5, "actions": 10})
        shown = orjson.loads(reply.body)
        assert reply.status == 200 and shown["seed"] == 5 and len(shown["transactions"]) >= 10
        for one in shown["transactions"]:
            assert set(one) == {"signature", "slot", "action", "failed", "routed", "expected"}
        signatures |= {one["signature"] for one in shown["transactions"]}
        assert len(signatures) >= len(shown["transactions"])
        pad.local.beat()
    assert len(signatures) >= 20
    kinds = {event["kind"] for one in shown["transactions"] for event in one["expected"]}
    assert kinds <= {"newPair", "graduation", "swap"}
    for seed in range(6, 6 + MARKETS_MAX):
        assert posted(pad, "market", {"seed": seed, "actions": 1}).status == 200
    again = posted(pad, "market", {"seed": 5, "actions": 1})
    assert again.status == 500 and "seed 5 has been used" in orjson.loads(again.body)["error"]


WALLET = Pubkey.from_bytes(b"\x21" * 32)
Client = Callable[[str], httpx.AsyncClient]


@pytest.fixture
def client(local: LocalNode) -> Client:
    door = HttpDoor(local.dispatcher, local.node.health, admin_routes(local.node))

    def connect(address: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=door, client=(address, 5))  # type: ignore[arg-type]
        return httpx.AsyncClient(transport=transport, base_url="http://node")

    return connect


async def test_funding_gives_both_coins(client: Client, local: LocalNode) -> None:
    body = {"pubkey": str(WALLET), "lamports": 10**9, "usdc_base_units": 5_000_000}
    reply = (await client("127.0.0.1").post("/admin/fund", json=body)).json()
    assert reply["ok"] and reply["signatures"] == [reply["sol_signature"], reply["usdc_signature"]]
    assert reply["token_account"] == str(get_associated_token_address(WALLET, USDC_MINT))
    local.finalize()
    assert local.call("getBalance", str(WALLET))["value"] == 10**9
    assert local.call("getTokenAccountBalance", reply["token_account"])["value"]["amount"] == "5000000"


@pytest.mark.parametrize(
    "body",
    [
        {"lamports": 1},
        {"pubkey": "x", "lamports": 1},
        {"pubkey": 5, "lamports": 1},
        {"pubkey": str(WALLET), "lamports": -1},
        {"pubkey": str(WALLET), "lamports": 1.5},
        {"pubkey": str(WALLET), "lamports": True},
        {"pubkey": str(WALLET), "lamports": 2**63},
        {"pubkey": str(WALLET), "usdc_base_units": 10**18},
        [],
    ],
)
async def test_bad_requests_give_nothing(client: Client, local: LocalNode, body: Any) -> None:
    reply = await client("127.0.0.1").post("/admin/fund", json=body)
    assert reply.status_code == 400 and reply.json()["ok"] is False
    assert list(local.chain.open_transactions()) == []


async def test_only_this_machine_may_ask(client: Client) -> None:
    body = {"pubkey": str(WALLET), "lamports": 10**9}
    assert (await client("10.0.0.7").post("/admin/fund", json=body)).status_code == 403
    assert (await client("::1").post("/admin/fund", json=body)).status_code == 200


async def test_a_web_page_cannot_ask(client: Client) -> None:
    """A form or a plain fetch from a page in a local browser cannot declare JSON without permission."""
    reply = await client("127.0.0.1").post("/admin/fund", content=b"{}", headers={"content-type": "text/plain"})
    assert reply.status_code == 415
    broken = await client("127.0.0.1").post("/admin/fund", content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 400


async def test_a_gift_that_cannot_land_says_why(client: Client) -> None:
    reply = await client("127.0.0.1").post("/admin/fund", json={"pubkey": str(WALLET), "lamports": 1})
    assert reply.status_code == 500 and "insufficient funds for rent" in reply.json()["error"]


async def test_faults_are_seen_changed_and_cleared(client: Client, local: LocalNode) -> None:
    """GET shows the whole plan, POST changes what it names, DELETE takes everything back."""
    operator = client("127.0.0.1")
    assert (await operator.get("/admin/faults")).json() == {"ok": True, "faults": FaultPlan().as_json()}
    set_reply = await operator.post("/admin/faults", json={"seed": 7, "sends": {"rpc": {"drop_share": 1}}})
    assert set_reply.json()["faults"]["sends"]["rpc"]["drop_share"] == 1.0
    await operator.post("/admin/faults", json={"node": {"lag_slots": 3}})
    plan = local.node.faults.plan
    assert (plan.seed, plan.sends.rpc.drop_share, plan.node.lag_slots) == (7, 1.0, 3)
    assert (await operator.get("/admin/faults")).json()["faults"] == plan.as_json()
    assert (await operator.delete("/admin/faults")).json()["faults"] == FaultPlan().as_json()
    assert local.node.faults.plan == FaultPlan() and not local.chain.levels.is_lagging


async def test_a_bad_setting_changes_nothing(client: Client, local: LocalNode) -> None:
    operator = client("127.0.0.1")
    reply = await operator.post("/admin/faults", json={"seed": 1, "slots": {"skip_share": 2}})
    assert reply.status_code == 400 and "$.slots.skip_share" in reply.json()["error"]
    reply = await operator.post("/admin/faults", json={"calls": {"getSlott": {"hang_share": 1}, "*": {}}})
    assert reply.status_code == 400 and reply.json()["error"] == "calls: no such method: getSlott"
    for known in ("getSlot", "sendBundle", "*"):
        assert (await operator.post("/admin/faults", json={"calls": {known: {"hang_share": 0}}})).status_code == 200
    await operator.delete("/admin/faults")
    reply = await operator.post("/admin/faults/once", json={"skip_slots": -1})
    assert reply.status_code == 400 and "skip_slots" in reply.json()["error"]
    assert local.node.faults.plan == FaultPlan()
    for wrong in ({"load": -1}, {"crowd": 1}, {"accounts": ["x"]}):
        assert (await operator.post("/admin/crowd", json=wrong)).status_code == 400
    assert (await operator.get("/admin/crowd")).json()["crowd"]["load"] == 0


async def test_single_acts_wait_for_the_next_seal(client: Client, local: LocalNode) -> None:
    """Two of them between the same two seals both happen."""
    operator = client("127.0.0.1")
    reply = await operator.post("/admin/faults/once", json={"skip_slots": 2})
    assert reply.json() == {"ok": True, "slot": local.chain.levels.building.slot}
    await operator.post("/admin/faults/once", json={"fork_blocks": 1})
    assert local.node.faults.next_seal() == Once(skip_slots=2, fork_blocks=1)
    assert local.node.faults.next_seal() == Once()


async def test_open_subscriptions_are_counted(client: Client, local: LocalNode) -> None:
    """Both kinds of streams, under their names; a test of sharing reads them."""
    pubsub, geyser = PubsubHub(local.node), GrpcHub(local.node)
    connection = Connection()
    pubsub.join(connection)
    pubsub.subscribe(SlotTopic(), connection)
    geyser.join(Outbox())
    assert (await client("127.0.0.1").get("/admin/subscriptions")).json() == {
        "ok": True,
        "slot": local.chain.levels.building.slot,
        "pubsub": {"connections": 1, "subscriptions": 1, "by_method": {"slotSubscribe": 1}},
        "grpc": {"streams": 1, "filters": 0},
    }
    assert (await client("10.0.0.7").get("/admin/subscriptions")).status_code == 403


async def test_strangers_turn_no_switch(client: Client, local: LocalNode) -> None:
    stranger = client("10.0.0.7")
    for verb, path in (("GET", ""), ("POST", ""), ("DELETE", ""), ("POST", "/once")):
        assert (await stranger.request(verb, f"/admin/faults{path}", json={"seed": 3})).status_code == 403
    page = await client("127.0.0.1").post(
        "/admin/faults", content=b'{"seed":3}', headers={"content-type": "text/plain"}
    )
    assert page.status_code == 415
    assert local.node.faults.plan == FaultPlan()


def asked(pad: Pad, verb: str, name: str, fields: dict[str, object] | None = None, query: bytes = b"") -> Reply:
    headers = [(b"content-type", b"application/json")]
    scope = {"method": verb, "client": ("127.0.0.1", 5), "headers": headers, "query_string": query}
    reply = admin_routes(pad.local.node)[verb, f"/admin/{name}"](scope, b"" if fields is None else orjson.dumps(fields))
    assert isinstance(reply, Reply)
    return reply


def test_snapshots_are_taken_listed_returned_to_and_deleted(pad: Pad) -> None:
    shown = orjson.loads(asked(pad, "POST", "snapshot", {"name": "before"}).body)["snapshot"]
    building = pad.local.chain.levels.building.slot
    assert (shown["id"], shown["name"], shown["slot"]) == (1, "before", building)
    receiver = Pubkey.new_unique()
    pad.local.faucet.airdrop(receiver, 10**9)
    posted(pad, "market", {"seed": 5, "actions": 1})
    listed = orjson.loads(asked(pad, "GET", "snapshot").body)
    assert listed["snapshots"] == [shown] and listed["kept_bytes"] > 0
    back = orjson.loads(asked(pad, "POST", "snapshot/restore", {"id": 1}).body)
    assert back["accounts_written"] >= 2 and back["slot"] == building
    assert pad.local.chain.vm.account(receiver) is None and not pad.local.node.markets
    assert orjson.loads(asked(pad, "DELETE", "snapshot", query=b"id=1").body)["snapshot"] == shown
    assert orjson.loads(asked(pad, "GET", "snapshot").body)["snapshots"] == []
    for reply in (asked(pad, "DELETE", "snapshot", query=b"id=1"), asked(pad, "POST", "snapshot/restore", {"id": 1})):
        assert reply.status == 409 and orjson.loads(reply.body) == {"ok": False, "error": "no snapshot 1"}


@pytest.mark.parametrize(
    ("verb", "name", "fields", "query"),
    [
        ("POST", "snapshot", {"name": ""}, b""),
        ("POST", "snapshot", {"name": 5}, b""),
        ("POST", "snapshot", {"name": "x" * 65}, b""),
        ("POST", "snapshot", {"colour": 1}, b""),
        ("POST", "snapshot/restore", {}, b""),
        ("POST", "snapshot/restore", {"id": True}, b""),
        ("POST", "snapshot/restore", {"id": "x"}, b""),
        ("DELETE", "snapshot", None, b""),
        ("DELETE", "snapshot", None, b"id=-1"),
        ("DELETE", "snapshot", None, b"id=" + b"9" * 5_000),
        ("POST", "warp", {"slot": "5"}, b""),
        ("POST", "warp", {"slot": True}, b""),
        ("POST", "warp", {"unix_time": 1.5}, b""),
        ("POST", "warp", {"epoch": 5}, b""),
    ],
)
def test_bad_fields_of_time_and_snapshots(
    pad: Pad, verb: str, name: str, fields: dict[str, object] | None, query: bytes
) -> None:
    before = pad.local.chain.levels.building
    reply = asked(pad, verb, name, fields, query)
    assert reply.status == 400 and orjson.loads(reply.body)["ok"] is False
    assert pad.local.chain.levels.building == before and not pad.local.chain.snapshots


def test_time_and_snapshots_are_for_this_machine_only(pad: Pad) -> None:
    for verb, name in [("POST", "warp"), *((verb, "snapshot") for verb in ("GET", "POST", "DELETE"))]:
        scope = {"method": verb, "client": ("192.0.2.7", 5), "headers": [(b"content-type", b"application/json")]}
        reply = admin_routes(pad.local.node)[verb, f"/admin/{name}"](scope, b'{"slot": 9999999}')
        assert isinstance(reply, Reply) and reply.status == 403


def test_too_many_snapshots_are_refused(pad: Pad) -> None:
    statuses = [asked(pad, "POST", "snapshot", {}).status for _ in range(SNAPSHOTS_MAX + 3)]
    assert statuses == [200] * SNAPSHOTS_MAX + [409] * 3


async def test_a_warp_answers_when_it_is_on_disk(pad: Pad) -> None:
    local = pad.local
    local.node.pacemaker = Pacemaker(local.chain, local.journal, local.clock, 400, local.node.faults)
    transport = httpx.ASGITransport(HttpDoor(local.dispatcher, local.node.health, admin_routes(local.node)))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        before = local.chain.levels.building.slot
        reply = await client.post("/admin/warp", json={"slot": before + 1_000})
        assert reply.status_code == 200, reply.text
        building = local.chain.levels.building
        assert reply.json() == {
            "ok": True,
            "slot": before + 1_000,
            "block_height": building.height,
            "unix_time": local.chain.opened_unix_time,
        }
        assert local.archive.block(before) is not None
        for slot in (before, 0, -5, 2**63, 2**64 - 1):
            refused = await client.post("/admin/warp", json={"slot": slot})
            assert refused.status_code == 400 and f"slot: {slot}, wanted" in refused.json()["error"]
        assert local.chain.levels.building == building
