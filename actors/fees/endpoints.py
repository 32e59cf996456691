"""suggestPriorityFee and getPriorityFeeEstimate: one call to the node, and the shape of the reply.

Implements: interface, "suggestPriorityFee" and its result; getPriorityFeeEstimate in the shape that
wallets already read.
A shell: it asks a node through a port. When the node fails or has no slots yet, the answer is a failure, never a fee of
zero. Parameters are checked before (methods/fees.py).
"""

import msgspec
import orjson

from actors.fees import core
from actors.methods.fees import EstimateQuestion, FeeQuestion
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, MethodHandler, Node, NodeAnswer

_U64_MAX = (1 << 64) - 1


class _SlotFee(msgspec.Struct):
    slot: int
    fee: int = msgspec.field(name="prioritizationFee")


class _Window(msgspec.Struct, frozen=True):
    """node: the name of the node that gave these fees."""

    fees: list[int]
    node: str


_WINDOW_DECODER = msgspec.json.Decoder(list[_SlotFee])


class FeeMethods:
    def __init__(self, node: Node) -> None:
        self._node = node

    def handlers(self) -> dict[str, MethodHandler]:
        """Return handlers by method name. Each takes a question of methods/fees.py as JSON."""
        return {"suggestPriorityFee": self._suggest, "getPriorityFeeEstimate": self._estimate}

    async def _suggest(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked = msgspec.json.decode(params, type=FeeQuestion)
        window = await self._window(asked.accounts, core.WINDOW_SLOTS, timeout_ms)
        if isinstance(window, NodeAnswer):
            return window
        return replies.made(orjson.dumps(suggestion(asked, window.fees)), window.node)

    async def _estimate(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked = msgspec.json.decode(params, type=EstimateQuestion)
        window = await self._window(asked.accounts, asked.lookback_slots, timeout_ms)
        if isinstance(window, NodeAnswer):
            return window
        return replies.made(orjson.dumps(estimate(asked, window.fees)), window.node)

    async def _window(self, accounts: tuple[str, ...], slots: int, timeout_ms: int) -> _Window | NodeAnswer:
        """Return the fees of at least one slot; or the failed answer, where the node gave none."""
        params = orjson.dumps([list(accounts)] if accounts else [])
        answer = await self._node.call("getRecentPrioritizationFees", params, timeout_ms)
        if answer.kind is not AnswerKind.RESULT:
            return answer
        try:
            entries = _WINDOW_DECODER.decode(answer.value())
        except msgspec.DecodeError:
            return replies.GARBAGE
        if any(entry.slot < 0 or not 0 <= entry.fee <= _U64_MAX for entry in entries):
            return replies.GARBAGE
        fees = core.in_window(((entry.slot, entry.fee) for entry in entries), slots)
        if not fees:
            return replies.UNREACHABLE  # A node without a single slot has just started.
        return _Window(fees, answer.node)


def suggestion(asked: FeeQuestion, fees: list[int]) -> dict[str, object]:
    taken = core.sample(fees, paid_slots_only=bool(asked.accounts))
    counts = {"sample_count": taken.sampled, "paid_slot_count": taken.paid, "basis": taken.basis.value}
    return {
        "suggested_fee_microlamports": core.nearest_rank(taken.fees, core.URGENCIES[asked.urgency]),
        "urgency": asked.urgency,
        "all_levels": core.levels(taken, core.LEVELS) | counts,
        "scoped_to_accounts": bool(asked.accounts),
    }


def estimate(asked: EstimateQuestion, fees: list[int]) -> dict[str, object]:
    taken = core.sample(fees, paid_slots_only=bool(asked.accounts) and not asked.empty_as_zero)
    body: dict[str, object] = {"priorityFeeEstimate": core.nearest_rank(taken.fees, asked.percent)}
    if asked.with_levels:
        body["priorityFeeLevels"] = core.levels(taken, core.ESTIMATE_LEVELS)
    return body
