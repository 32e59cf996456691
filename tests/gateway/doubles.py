"""An account owner and a node that do what a test says, for the pipeline's own promises."""

import asyncio
import base64
from collections.abc import Callable

import orjson
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import Transaction

from actors.accounts.api import AccountStanding, OwnerReply, OwnerUnavailable
from actors.accounts.stream_times import StreamTimes
from actors.calls import (
    OTHER_PRICES,
    ChargeReply,
    ChargeRequest,
    Figures,
    HoldReply,
    HoldRequest,
    KeyProof,
    SettleReply,
    SettleRequest,
    StreamTime,
    StreamTimeReply,
    operation_at,
)
from actors.clock import ManualClock
from actors.gateway.calls.jsonrpc import Call
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.telemetry.metrics import Metrics
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer

PROOF = KeyProof(bytes(32), bytes(8))
PUBKEY = b"p" * 32
REPLICA = b"replica0"
_PAYER = Keypair.from_seed(bytes(31) + b"\x01")
TRANSACTION = base64.b64encode(bytes(Transaction([_PAYER], Message([], _PAYER.pubkey()), Hash.default()))).decode()
RESULT = replies.judge(b'{"jsonrpc":"2.0","result":"ok","id":1}')


class OneAccount:
    """Holds and posts for one account, checking that each hold ends exactly once and never below zero.

    Each of `before_hold`, `before_settle`, `after_settle` may await, raise, or do nothing.
    """

    def __init__(self, credits: int) -> None:
        self.credits = credits
        self.held: dict[bytes, int] = {}
        self.ends: dict[bytes, SettleRequest] = {}
        self.voided: list[SettleRequest] = []
        self.delivered_operations: list[bytes] = []
        self.holds: list[HoldRequest] = []
        self.refusal: str | None = None
        self.key = 0  # Number of the named key that is presented.
        self.price_list = ""
        self.slots = 0
        self.rate_left = self.rate_limit = 1_000
        self.settle_says_no = False
        self.in_doubt: set[bytes] = set()  # Operations of which the owner does not say that they stay charged.
        self.stream_times = StreamTimes()
        self.before_stream_time = None
        self.before_hold = self.before_settle = self.after_settle = self.before_confirm = None

    @property
    def available(self) -> int:
        return self.credits - sum(self.held.values())

    @property
    def posted(self) -> dict[str, int]:
        """Charged credits by method."""
        sums: dict[str, int] = {}
        for end in self.ends.values():
            if end.charged:
                sums[end.method] = sums.get(end.method, 0) + end.charged
        return sums

    async def hold(self, request: HoldRequest) -> HoldReply:
        await _maybe(self.before_hold, request)
        self.holds.append(request)
        if self.refusal is not None:
            return HoldReply(PUBKEY, 1, self.refusal, (), None)
        told = Figures(self.available, self.rate_limit, self.rate_left, 1)
        if request.price_list is not None and request.price_list != self.price_list:
            return HoldReply(PUBKEY, 1, OTHER_PRICES, (), told, price_list=self.price_list)
        verdicts = tuple(self._admit(operation_at(request.operation, i), item) for i, item in enumerate(request.items))
        told = Figures(self.available, self.rate_limit, self.rate_left, 1)
        return HoldReply(PUBKEY, 1, None, verdicts, told, self.key, price_list=self.price_list, slots=self.slots)

    async def ask_many(self, commands):
        """Answer ReadStanding for each."""
        if self.refusal is not None:
            return [OwnerReply(refusal=self.refusal)] * len(commands)
        return [OwnerReply(AccountStanding(PUBKEY, self.available, is_active=True, available=self.available))] * len(
            commands
        )

    def _admit(self, operation, item) -> str | None:
        if operation in self.held:
            return None
        if self.rate_left == 0:
            return "RATE_LIMITED"
        if item.ceiling > self.available:
            return "INSUFFICIENT_CREDITS"
        if not item.takes_unit:
            return None
        self.rate_left -= 1
        self.held[operation] = item.ceiling
        return None

    async def charge(self, request: ChargeRequest) -> ChargeReply:
        held = await self.hold(request.hold)
        if held.refusal is not None or held.verdicts[0] is not None:
            return ChargeReply(held, None)
        return ChargeReply(held, await self.settle(request.settle))

    async def settle(self, request: SettleRequest) -> SettleReply:
        await _maybe(self.before_settle, request)
        if self.settle_says_no:
            return SettleReply(False, self.available)
        self._end(request)
        await _maybe(self.after_settle, request)
        return SettleReply(True, self.available)

    def _end(self, request: SettleRequest) -> None:
        if request.operation in self.ends:
            return  # Asked again: the first end stands.
        assert 0 <= request.charged <= self.held.pop(request.operation)
        self.credits -= request.charged
        self.ends[request.operation] = request
        assert self.available >= 0

    async def stream_time(self, request: StreamTime) -> StreamTimeReply:
        await _maybe(self.before_stream_time, request)
        return self.stream_times.tell(request, 0)

    def may_leave(self, charge: SettleRequest) -> bool:
        return charge.operation not in self.in_doubt

    async def confirm(self, charge: SettleRequest) -> bool:
        await _maybe(self.before_confirm, charge)
        return charge.operation not in self.in_doubt

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        del pubkey
        self.delivered_operations.append(operation)

    def void(self, request: SettleRequest) -> None:
        self.voided.append(request)
        self.held.pop(request.operation, None)


async def _maybe(step, request) -> None:
    if step is not None:
        await step(request)


class ScriptedNode:
    """Answers what `answer` gives for (method, params); a future or event of the test can hold it back."""

    def __init__(self, answer: Callable[[str, bytes], NodeAnswer] | None = None, asked_after: int = 1) -> None:
        self.answer = answer or (lambda method, params: RESULT)
        self.calls: list[tuple[str, bytes, int]] = []
        self.asked = asyncio.Event()  # Set with the call of this number.
        self.asked_after = asked_after
        self.gate: asyncio.Event | None = None
        self.abandoned = 0

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        self.calls.append((method, params, timeout_ms))
        if len(self.calls) == self.asked_after:
            self.asked.set()
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.abandoned += 1
                raise
        return self.answer(method, params)


async def unavailable(request) -> None:
    raise OwnerUnavailable("the test says so")


def pipeline_of(
    account: OneAccount,
    node: ScriptedNode,
    in_flight_max: int = 100,
    metrics: Metrics | None = None,
    clock: ManualClock | None = None,
) -> Pipeline:
    limits = RefusalLimits(500, 500, lambda caller: "here")
    return Pipeline(account, node, clock or ManualClock(), REPLICA, in_flight_max, limits, metrics)


def a_call(method: str, *arguments: object, raw_id: bytes = b"1") -> Call:
    return Call(raw_id, method, orjson.dumps(list(arguments)), list(arguments))


def a_send() -> Call:
    return a_call("sendTransaction", TRANSACTION, {"encoding": "base64"})


def node_error(code: int, message: str, **more: object) -> NodeAnswer:
    error = {"code": code, "message": message} | more
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "error": error, "id": 1}))


def counted(metrics: Metrics, figure: str, label: str = "method") -> dict[str, int]:
    """A counter's values, added up by one of its labels."""
    sums: dict[str, int] = {}
    for family in metrics.families():
        for sample in family.samples:
            if sample.name == f"ledger_gateway_{figure}_total":
                sums[sample.labels[label]] = sums.get(sample.labels[label], 0) + int(sample.value)
    return sums
