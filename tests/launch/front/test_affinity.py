"""An account's calls go to one replica while that one is not busier than the others, in a real HAProxy.

Rules: design, "Owners, for every kind of actor".
"""

import asyncio
import random
from pathlib import Path

from actors.identity.credentials import RANDOM_BYTES, new_api_key, new_session_token
from actors.launch.front import affinity
from actors.launch.front.affinity import BUSY_DENOMINATOR, BUSY_NUMERATOR, SLACK_REQUESTS, with_affinity
from actors.launch.front.config import rewrite
from actors.units import PUBKEY_BYTES, VIRTUAL_SHARDS, shard_of
from tests.launch.front.test_config import told
from tests.launch.fronts import Front, Replica, ok, rendered, running

_REQUESTS = 80
_WEBSOCKET_KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def test_the_shards_are_those_of_the_product() -> None:
    assert affinity.VIRTUAL_SHARDS == VIRTUAL_SHARDS


def configured(folder: Path, second_port: int = 0, has_spare: bool = False) -> str:
    path = rendered(folder, 8080, 9000, 8404, 9101, second_port=second_port)
    return rewrite(path.read_text(encoding="utf-8"), told(has_spare=has_spare), 1 << 20)


def test_one_replica_and_a_spare_have_no_rules(tmp_path: Path) -> None:
    """A default run on a small machine is as before."""
    (tmp_path / "one").mkdir()
    for text in (configured(tmp_path / "one"), configured(tmp_path, 9001, has_spare=True)):
        assert with_affinity(text) == text


def test_the_blocks_are_all_shards_once_and_credentials_are_in_no_log(tmp_path: Path) -> None:
    before = configured(tmp_path, 9001)
    added = [line for line in with_affinity(before).splitlines() if line not in before.splitlines()]
    blocks = [line.split("-m int ")[1].split()[0] for line in added if "use-server" in line]
    assert blocks == ["0:511", "512:1023"]
    assert all(line.strip().startswith(("http-request set-var(txn.", "use-server ")) for line in added), added


def credentials(pubkey: bytes, chance: random.Random) -> list[str]:
    """Heads of requests: a key, a key in the URL, a legacy key's form, and a session."""
    key = new_api_key(pubkey, chance.randbytes(RANDOM_BYTES))
    token = new_session_token(pubkey, chance.randbytes(RANDOM_BYTES))
    return [
        f"POST / HTTP/1.1\r\nx-api-key: {key}\r\n",
        f"POST /?a=1&api-key={key} HTTP/1.1\r\n",
        f"POST / HTTP/1.1\r\nX-Api-Key: {token}\r\nauthorization: Bearer nothing\r\n",
        f"POST / HTTP/1.1\r\nAuthorization: Bearer {token}\r\n",
    ]


async def ask(front: Front, head: str) -> None:
    ended = "\r\n" if "upgrade: " in head else "content-length: 2\r\n\r\nhi"
    assert (await front.ask(f"{head}host: a\r\n{ended}".encode()))[0] == 200


async def test_every_credential_of_an_account_leads_to_the_replica_of_its_block() -> None:
    chance = random.Random(7)
    first, second = Replica(), Replica()
    async with running(first, second=second) as front:
        for _ in range(12):
            pubkey = chance.randbytes(PUBKEY_BYTES)
            for head in credentials(pubkey, chance):
                first.requests.clear(), second.requests.clear()
                await ask(front, head)
                is_first = shard_of(pubkey) < VIRTUAL_SHARDS // 2
                assert (len(first.requests), len(second.requests)) == ((1, 0) if is_first else (0, 1)), head


async def test_what_names_no_account_or_stays_open_is_spread() -> None:
    """A wallet's signature, a text that only looks like a key, a WebSocket."""
    chance = random.Random(7)
    key, *_ = credentials(chance.randbytes(PUBKEY_BYTES), chance)
    upgrade = f"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: {_WEBSOCKET_KEY}\r\n"
    for head in (
        "POST / HTTP/1.1\r\nx-pubkey: 11111111111111111111111111111111\r\n",
        "POST / HTTP/1.1\r\nx-api-key: srpc_live_short\r\n",
        key.replace("POST", "GET") + upgrade,
    ):
        first, second = Replica(), Replica()
        async with running(first, second=second) as front:
            for _ in range(6):
                await ask(front, head)
            assert (len(first.requests), len(second.requests)) == (3, 3), head


async def test_a_credential_cannot_overload_its_replica() -> None:
    """Requests that wait: beyond its share they go to the others."""
    chance, all_there, seen = random.Random(7), asyncio.Event(), 0

    async def behave(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonlocal seen
        await reader.readexactly(2)
        seen += 1
        if seen == _REQUESTS:
            all_there.set()
        await all_there.wait()
        writer.write(ok(b"{}"))
        return True

    first, second = Replica(behave=behave), Replica(behave=behave)
    async with running(first, second=second) as front:
        head, *_ = credentials(chance.randbytes(PUBKEY_BYTES), chance)
        async with asyncio.TaskGroup() as group:
            for _ in range(_REQUESTS):
                group.create_task(ask(front, head))
    most = _REQUESTS / 2 * BUSY_NUMERATOR / BUSY_DENOMINATOR + SLACK_REQUESTS
    busier = max(len(first.requests), len(second.requests))
    assert _REQUESTS / 2 < busier <= most + 1, (len(first.requests), len(second.requests))


async def test_a_call_whose_replica_has_died_is_answered_by_another() -> None:
    chance = random.Random(7)
    first, second = Replica(), Replica()
    async with running(first, second=second) as front:
        head, *_ = credentials(chance.randbytes(PUBKEY_BYTES), chance)
        await ask(front, head)
        dying, other = (first, second) if first.requests else (second, first)
        dying.die()
        for _ in range(4):
            await ask(front, head)
        assert len(other.requests) == 4
