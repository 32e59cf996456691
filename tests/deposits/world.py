"""A chain made up for the watcher: blocks, forks, lag, outages and a short memory, and owners of accounts over a real
shard core. What each transaction really was, the chain itself remembers, for an auditor who asks it alone.
"""

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import base58
import orjson

from actors.accounts.api import AssignDeposit, CreditDeposit, DepositReceipt, OwnerReply, refused
from actors.addresses import TOKEN_PROGRAM
from actors.clock import ManualClock
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.confirmation import Confirming
from actors.deposits.usdc.crediting import Crediting
from actors.deposits.usdc.store import DepositStore
from actors.deposits.usdc.transfers import DepositAccount, deposit_account
from actors.errors import Err
from actors.telemetry.metrics import Metrics
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer

MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"
RATE = 100_000
MINIMUM = 10_000


def key_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


@functools.cache
def text_of(raw: bytes) -> str:
    return base58.b58encode(raw).decode()


ACCOUNT: DepositAccount = deposit_account(text_of(key_of("deposit wallet")), MINT)


class Crash(Exception):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Sent:
    """One transaction: payers, amounts and result."""

    signature: bytes
    payments: tuple[tuple[str, int], ...]  # Name and base units, one transfer each.
    failed: bool = False
    signed: bool = True  # False: by a program, for an authority that signed nothing.
    unexplained: int = 0  # The balance grows by so much more than the transfers say, or less.

    def told(self, slot: int) -> dict[str, Any]:
        names = [name for name, _ in self.payments]
        keys = ["Payer", *(text_of(key_of(name)) for name in names), "Source", ACCOUNT.address, TOKEN_PROGRAM]
        source, till, program = len(names) + 1, len(names) + 2, len(names) + 3
        outer = [
            {
                "programIdIndex": program,
                "accounts": [source, till, number],
                "data": text_of(b"\x03" + amount.to_bytes(8, "little")),
            }
            for number, (_, amount) in enumerate(self.payments, start=1)
        ]
        grown = 0 if self.failed else sum(amount for _, amount in self.payments) + self.unexplained

        def balance(amount: int) -> list[dict[str, Any]]:
            amounts = {"amount": str(amount), "decimals": 6}
            return [{"accountIndex": till, "mint": MINT, "owner": ACCOUNT.wallet, "uiTokenAmount": amounts}]

        return {
            "slot": slot,
            "blockTime": 1_700_000_000 + slot,
            "meta": {
                "err": {"InstructionError": [0, "Custom"]} if self.failed else None,
                "innerInstructions": [],
                "preTokenBalances": balance(10**9),
                "postTokenBalances": balance(10**9 + grown),
            },
            "transaction": {
                "message": {
                    "accountKeys": keys,
                    "header": {"numRequiredSignatures": 1 + len(names) if self.signed else 1},
                    "instructions": outer,
                }
            },
        }


@dataclass
class FakeChain:
    """Answers like a node. final: (slot, transaction), oldest first. pending: not final; a fork may drop them."""

    final: list[tuple[int, Sent]] = field(default_factory=list)
    pending: list[tuple[int, Sent]] = field(default_factory=list)
    slot: int = 1_000
    first_slot: int = 0  # What is older was cleaned up.
    lag: int = 0  # Answers are as they were so many slots ago.
    away: bool = False
    hidden: set[bytes] = field(default_factory=set)  # Listed, and not to be had yet.
    calls: list[str] = field(default_factory=list)
    number: int = 0

    def follow(self, listener: Any) -> None:
        """It never changes, and has no WebSocket."""
        listener([])

    def pay(self, *payments: tuple[str, int], **how: Any) -> Sent:
        """A new transaction, final at once, in a slot of its own."""
        self.slot += 1
        sent = self.make(*payments, **how)
        self.final.append((self.slot, sent))
        return sent

    def make(self, *payments: tuple[str, int], **how: Any) -> Sent:
        self.number += 1
        return Sent(hashlib.sha512(str(self.number).encode()).digest(), payments, **how)

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        del timeout_ms
        self.calls.append(method)
        if self.away:
            return replies.UNREACHABLE
        try:
            result = getattr(self, f"_{method}")(*orjson.loads(params))
        except LookupError:
            error = {"code": -32020, "message": "not found"}
            return replies.judge(orjson.dumps({"jsonrpc": "2.0", "id": 1, "error": error}))
        answer = replies.judge(orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": result}))
        assert answer.kind is AnswerKind.RESULT
        return answer

    def _visible(self) -> list[tuple[int, Sent]]:
        return [row for row in self.final if self.first_slot <= row[0] <= self.slot - self.lag]

    def _getAccountInfo(self, address: str, _config: Any) -> dict[str, Any]:
        assert address == ACCOUNT.address
        return {"value": {"data": {"parsed": {"info": {"owner": ACCOUNT.wallet, "mint": MINT}}}}}

    def _getSlot(self, _config: Any) -> int:
        return self.slot - self.lag

    def _getBlocksWithLimit(self, first: int, limit: int, _config: Any) -> list[int]:
        return list(range(max(first, self.first_slot), self.slot - self.lag + 1))[:limit]

    def _getFirstAvailableBlock(self) -> int:
        return self.first_slot

    def _getSignaturesForAddress(self, account: str, config: dict[str, Any]) -> list[dict[str, Any]]:
        assert account == ACCOUNT.address and config["commitment"] == "finalized"
        rows = self._visible()[::-1]
        names = [text_of(sent.signature) for _, sent in rows]
        for position in ("before", "until"):
            if position in config and config[position] not in names:
                raise LookupError(position)
        if "before" in config:
            rows = rows[names.index(config["before"]) + 1 :]
        if "until" in config:
            rows = rows[: [text_of(sent.signature) for _, sent in rows].index(config["until"])]
        return [
            {"signature": text_of(sent.signature), "slot": slot, "blockTime": 1, "err": {} if sent.failed else None}
            for slot, sent in rows[: config["limit"]]
        ]

    def _getTransaction(self, signature: str, config: dict[str, Any]) -> dict[str, Any] | None:
        assert config["commitment"] == "finalized" and config["encoding"] == "json"
        wanted = base58.b58decode(signature)
        for slot, sent in self._visible():
            if sent.signature == wanted and wanted not in self.hidden:
                return sent.told(slot)
        return None

    def _getSignatureStatuses(self, signatures: list[str], _config: Any) -> dict[str, Any]:
        for level, rows in (("finalized", self._visible()), ("confirmed", self.pending)):
            for slot, sent in rows:
                if [text_of(sent.signature)] == signatures:
                    err = {} if sent.failed else None
                    return {"value": [{"slot": slot, "confirmationStatus": level, "err": err}]}
        return {"value": [None]}


@dataclass
class FakeAccounts:
    """Owners of accounts that credit each operation once. away: they do not answer."""

    credited: dict[tuple[bytes, int], tuple[bytes, int]] = field(default_factory=dict)
    order: list[tuple[bytes, bytes]] = field(default_factory=list)
    balances: dict[bytes, int] = field(default_factory=dict)
    taken_back: set[tuple[bytes, int]] = field(default_factory=set)
    asked: int = 0
    away: bool = False
    halted: set[bytes] = field(default_factory=set)  # These accounts are not answered for.
    between: Callable[[], Awaitable[None]] = field(default=lambda: asyncio.sleep(0))  # Some are credited, others not.

    async def ask(self, command: CreditDeposit | AssignDeposit) -> OwnerReply[DepositReceipt]:
        pubkey, credit = command.pubkey, command.transfer
        assert isinstance(command, CreditDeposit) or command.reason
        self.asked += 1
        if self.away or pubkey in self.halted:
            return refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE)
        credits = credit.base_units * RATE // 1_000_000
        if credits == 0:
            return refused(Err.INVALID_REQUEST, "worth less than one credit")
        key = (credit.signature, credit.index)
        before = key in self.credited
        if not before:
            self.credited[key] = (pubkey, credits)
            self.order.append((pubkey, credit.signature))
            self.balances[pubkey] = self.balances.get(pubkey, 0) + credits
        owner, worth = self.credited[key]
        balance = self.balances.get(owner, 0) if owner == pubkey else 0
        return OwnerReply(DepositReceipt(owner, worth, balance, before, key in self.taken_back))

    async def ask_many(self, commands: Sequence[CreditDeposit]) -> list[OwnerReply[DepositReceipt]]:
        replies = []
        for command in commands:
            replies.append(await self.ask(command))
            await self.between()
        return replies


class Tripwire:
    """Counts every call to the outside, and ends the process before or after one of them."""

    def __init__(self, at: int = -1) -> None:
        self.at, self.steps = at, 0

    def around(self, thing: Any) -> Any:
        return _Tripped(self, thing)

    async def step(self, work: Callable[[], Awaitable[Any]]) -> Any:
        await self.pass_one()
        result = await work()
        await self.pass_one()
        return result

    async def pass_one(self) -> None:
        self.steps += 1
        if self.steps - 1 == self.at:
            raise Crash(f"at step {self.at}")


class _Tripped:
    def __init__(self, wire: Tripwire, thing: Any) -> None:
        self._wire, self._thing = wire, thing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)

        async def tripped(*arguments: Any, **named: Any) -> Any:
            return await self._wire.step(lambda: found(*arguments, **named))

        return tripped


@dataclass
class World:
    store: DepositStore
    clock: ManualClock = field(default_factory=ManualClock)
    chain: FakeChain = field(default_factory=FakeChain)
    accounts: Any = field(default_factory=FakeAccounts)
    start_slot: int = 0
    metrics: Metrics = field(default_factory=Metrics)

    def watcher(self, wire: Tripwire | None = None, replaced: Callable[[], object] = lambda: None) -> DepositWatcher:
        """One life of the watcher, which starts with only what is in the store."""
        wire = wire or Tripwire()
        if isinstance(self.accounts, FakeAccounts):
            self.accounts.between = wire.pass_one
        return DepositWatcher(
            ACCOUNT,
            DepositChain(wire.around(self.chain)),
            wire.around(self.store),
            Crediting(wire.around(self.accounts)),
            self.clock,
            minimum_base_units=MINIMUM,
            start_slot=self.start_slot,
            metrics=self.metrics,
            replaced=replaced,
        )

    def confirming(self, watcher: DepositWatcher | None = None) -> Confirming:
        chain, crediting = DepositChain(self.chain), Crediting(self.accounts)
        return Confirming(ACCOUNT.address, watcher or self.watcher(), chain, self.store, crediting, self.clock)
