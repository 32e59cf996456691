import asyncio
from typing import Any

import orjson
from solders.pubkey import Pubkey

from actors.errors import Refusal
from actors.launch_programs import addresses
from actors.trades.mint_reads import WALLETS_PER_CALL, MintReads, ReadCoin, ReadResult
from actors.trades.snapshot import RawAccount, WalletState
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer

from .test_quotes import MINT, USER
from .test_snapshot import coin_accounts, raw, token_data

OTHER_MINT = Pubkey(bytes(31) + b"\x09")


class SlowNode:
    """Holds every call back until the test lets it go. answers: what to say in place of the accounts."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gates: list[asyncio.Future[None]] = []
        self.answer: NodeAnswer | Exception | None = None
        self.accounts: list[RawAccount | None] = coin_accounts(addresses.TOKEN_PROGRAM)

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        assert method == "getMultipleAccounts" and timeout_ms > 0
        (keys, config) = orjson.loads(params)
        assert config == {"encoding": "base64", "commitment": "processed"} and len(keys) <= 100
        self.calls.append(keys)
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        wallets: list[Any] = [raw(addresses.TOKEN_PROGRAM, token_data(7)), None, None]
        value = self.accounts + wallets * ((len(keys) - 5) // 3)
        return replies.judge(
            orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": {"value": list(map(_shown, value))}}), "n"
        )

    def let_go(self) -> None:
        self.gates.pop(0).set_result(None)


def _shown(account: RawAccount | None) -> Any:
    return None if account is None else {"owner": account.owner, "data": account.data}


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def start(reads: MintReads, mint: Pubkey, user: Pubkey) -> "asyncio.Task[ReadResult]":
    return asyncio.create_task(reads.read(mint, user))


def users(count: int) -> list[Pubkey]:
    return [Pubkey(number.to_bytes(32, "big")) for number in range(1_000, 1_000 + count)]


async def test_one_call_per_coin_at_a_time_and_none_answers_a_later_caller() -> None:
    """Callers that come while a call is unanswered share the next one: the first may have read an older state."""
    node = SlowNode()
    reads = MintReads(node)
    first = start(reads, MINT, USER)
    await turns()
    later = [start(reads, MINT, USER) for _ in range(50)]
    await turns()
    assert len(node.calls) == 1 and len(node.calls[0]) == 8
    node.let_go()
    await turns()
    assert first.done() and len(node.calls) == 2 and not any(one.done() for one in later)
    node.let_go()
    found = await asyncio.gather(*later)
    assert all(isinstance(one, ReadCoin) and one.wallet == WalletState(USER, 7) and one.node == "n" for one in found)
    assert len(node.calls) == 2 and reads._queues == {}


async def test_one_call_reads_many_wallets_and_coins_do_not_wait_for_each_other() -> None:
    """At most 100 accounts in a call, so 31 wallets; the rest are in the calls after it."""
    node = SlowNode()
    reads = MintReads(node)
    first, other = start(reads, MINT, USER), start(reads, OTHER_MINT, USER)
    await turns()
    assert len(node.calls) == 2
    waiting = [start(reads, MINT, user) for user in users(WALLETS_PER_CALL + 5)]
    await turns()
    node.let_go()
    await turns()
    assert first.done() and not other.done()
    assert [len(keys) for keys in node.calls[2:]] == [5 + 3 * WALLETS_PER_CALL]
    node.gates.pop(1).set_result(None)
    await turns()
    assert [len(keys) for keys in node.calls[3:]] == [5 + 3 * 5]
    node.let_go()
    node.let_go()
    await asyncio.gather(*waiting, other)
    assert sum(one.done() for one in waiting) == len(waiting)


async def test_a_caller_that_leaves_ends_nobody_elses_wait() -> None:
    node = SlowNode()
    reads = MintReads(node)
    leaving, staying = start(reads, MINT, USER), start(reads, MINT, USER)
    await turns()
    leaving.cancel()
    await turns()
    node.let_go()
    assert isinstance(await staying, ReadCoin) and leaving.cancelled()


async def test_failures_reach_every_caller() -> None:
    """The node's failure as it is; accounts that cannot be, and a bug of ours, as an answer that cannot be used."""
    node = SlowNode()
    reads = MintReads(node)
    for answer, wanted in ((replies.TIMED_OUT, AnswerKind.TIMED_OUT), (RuntimeError("bug"), AnswerKind.GARBAGE)):
        node.answer = answer
        task = start(reads, MINT, USER)
        await turns()
        node.let_go()
        found = await task
        assert isinstance(found, NodeAnswer) and found.kind is wanted
    node.answer, node.accounts[2] = None, None
    task = start(reads, MINT, USER)
    await turns()
    node.let_go()
    assert await task is replies.GARBAGE
    node.accounts[2] = coin_accounts()[2]
    node.accounts[0] = None
    task = start(reads, MINT, USER)
    await turns()
    node.let_go()
    assert isinstance(await task, Refusal)


async def test_a_wallet_whose_account_cannot_be_spoils_no_other() -> None:
    """The token accounts in the answer belong to USER: for another wallet they hold nothing."""
    node = SlowNode()
    reads = MintReads(node)
    node.accounts[1] = raw(addresses.TOKEN_PROGRAM, bytes(36) + bytes(8) + b"\xff\x01" + bytes(36))
    (stranger,) = users(1)
    tasks = start(reads, MINT, USER), start(reads, MINT, stranger)
    await turns()
    node.let_go()
    mine, theirs = await asyncio.gather(*tasks)
    assert isinstance(mine, ReadCoin) and isinstance(theirs, ReadCoin)
    assert (mine.wallet.tokens, theirs.wallet.tokens) == (7, 0)
