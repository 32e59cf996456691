"""suggestPriorityFee and getPriorityFeeEstimate: the calls to the node, and the shape of the reply.

Implements: interface, "suggestPriorityFee" and its result; getPriorityFeeEstimate in the shape that
wallets already read.
A shell: it asks a node through a port. When the node fails or has no slots yet, the answer is a failure, never a fee of
zero. Parameters are checked before (methods/fees.py).
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import orjson
from solders.pubkey import Pubkey

from actors.addresses import LOOKUP_TABLE_PROGRAM
from actors.errors import Err, Refusal
from actors.fees import core, landed
from actors.fees.recent_blocks import RecentBlocks
from actors.methods.fees import FEE_ACCOUNTS_MAX, EstimateQuestion, FeeQuestion
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, MethodHandler, Node, NodeAnswer

_U64_MAX = (1 << 64) - 1
_TABLE_HEAD_BYTES, _KEY_BYTES = 56, 32
_TABLE_BYTES_MAX = _TABLE_HEAD_BYTES + 256 * _KEY_BYTES
_SORTED_AT_ONCE = 4_096  # Prices of accounts sorted in one turn of the event loop: half a millisecond.


class _SlotFee(msgspec.Struct):
    slot: int
    fee: int = msgspec.field(name="prioritizationFee")


class _Window(msgspec.Struct, frozen=True):
    """node: the name of the node that gave these fees."""

    fees: list[int]
    node: str


class _Account(msgspec.Struct):
    owner: str
    data: tuple[str, str]


class _Accounts(msgspec.Struct):
    value: list[_Account | None]


class Estimate(NamedTuple):
    """fee: of the level that was asked for. basis: what the levels were taken from, as the answer says it."""

    fee: int
    levels: dict[str, int]
    basis: dict[str, object]


_WINDOW_DECODER = msgspec.json.Decoder(list[_SlotFee])
_ACCOUNTS_DECODER = msgspec.json.Decoder(_Accounts)
_ASKED = "asked"  # Key of the requested level among the others.


class FeeMethods:
    """blocks: None: no block is read, and estimates rest on the node's figures for slots."""

    def __init__(self, node: Node, blocks: RecentBlocks | None = None) -> None:
        self._node, self._blocks, self._of_all = node, blocks, landed.LevelsOfAll()

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
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_ms / 1000
        accounts: Sequence[str] = asked.accounts
        if asked.tables:
            loaded = await self._of_tables(asked.tables, timeout_ms)
            if isinstance(loaded, NodeAnswer):
                return loaded
            accounts = tuple(dict.fromkeys((*accounts, *loaded)))
        if self._blocks is not None:
            blocks = landed.within(await self._blocks.blocks(), asked.lookback_slots)
            if sum(len(block.prices) for block in blocks) >= landed.TRANSACTIONS_MIN:
                found = await estimate_by_blocks(asked, accounts, blocks, self._of_all)
                return replies.made(orjson.dumps(estimate(asked, found)), self._blocks.nodes)
        left_ms = int((give_up_at - loop.time()) * 1000)
        if left_ms <= 0:
            return replies.TIMED_OUT
        window = await self._window(accounts, asked.lookback_slots, left_ms)
        if isinstance(window, NodeAnswer):
            return window
        found = estimate_by_slots(asked, bool(accounts), window.fees)
        return replies.made(orjson.dumps(estimate(asked, found)), window.node)

    async def _of_tables(self, tables: Sequence[tuple[str, bytes]], timeout_ms: int) -> list[str] | NodeAnswer:
        """Return the accounts that a transaction loads from lookup tables to write to them: one call for all tables."""
        config = {"encoding": "base64", "dataSlice": {"offset": 0, "length": _TABLE_BYTES_MAX}}
        params = orjson.dumps([[key for key, _ in tables], config])
        answer = await self._node.call("getMultipleAccounts", params, timeout_ms)
        if answer.kind is not AnswerKind.RESULT:
            return answer
        try:
            found = _ACCOUNTS_DECODER.decode(answer.value()).value
            datas = [b"" if one is None else base64.b64decode(one.data[0], validate=True) for one in found]
        except (msgspec.DecodeError, binascii.Error, ValueError):
            return replies.GARBAGE
        if len(found) != len(tables):
            return replies.GARBAGE
        keys: list[str] = []
        for (table, places), account, data in zip(tables, found, datas, strict=True):
            if account is None or account.owner != LOOKUP_TABLE_PROGRAM:
                return _no_table(f"{table} is no lookup table at the moment")
            count = (len(data) - _TABLE_HEAD_BYTES) // _KEY_BYTES
            if max(places) >= count:
                return _no_table(
                    f"{table} has {max(count, 0)} addresses, and the transaction names number {max(places)}"
                )
            for place in places:
                start = _TABLE_HEAD_BYTES + place * _KEY_BYTES
                keys.append(str(Pubkey.from_bytes(data[start : start + _KEY_BYTES])))
        return keys

    async def _window(self, accounts: Sequence[str], slots: int, timeout_ms: int) -> _Window | NodeAnswer:
        """Return the fees of at least one slot; or the failed answer, where the node gave none.

        More accounts than a node takes are asked for in slices: for each slot the node tells the highest figure of its
        accounts, so the highest of the slices is the same.
        """
        slices = [accounts[start : start + FEE_ACCOUNTS_MAX] for start in range(0, len(accounts), FEE_ACCOUNTS_MAX)]
        asked = [orjson.dumps([list(some)] if some else []) for some in slices or [()]]
        answers = await asyncio.gather(
            *(self._node.call("getRecentPrioritizationFees", params, timeout_ms) for params in asked)
        )
        highest: dict[int, int] = {}
        for answer in answers:
            if answer.kind is not AnswerKind.RESULT:
                return answer
            try:
                entries = _WINDOW_DECODER.decode(answer.value())
            except msgspec.DecodeError:
                return replies.GARBAGE
            for entry in entries:
                if entry.slot < 0 or not 0 <= entry.fee <= _U64_MAX:
                    return replies.GARBAGE
                highest[entry.slot] = max(entry.fee, highest.get(entry.slot, 0)) if len(slices) > 1 else entry.fee
        fees = core.in_window(highest.items(), slots)
        if not fees:
            return replies.UNREACHABLE  # A node without a single slot has just started.
        return _Window(fees, ", ".join(dict.fromkeys(answer.node for answer in answers if answer.node)))


def _no_table(text: str) -> NodeAnswer:
    return replies.refused(Refusal(Err.INVALID_PARAMS, f"transaction: {text}"))


def suggestion(asked: FeeQuestion, fees: list[int]) -> dict[str, object]:
    taken = core.sample(fees, paid_slots_only=bool(asked.accounts))
    counts = {"sample_count": taken.sampled, "paid_slot_count": taken.paid, "basis": taken.basis.value}
    return {
        "suggested_fee_microlamports": core.nearest_rank(taken.fees, core.URGENCIES[asked.urgency]),
        "urgency": asked.urgency,
        "all_levels": core.levels(taken, core.LEVELS) | counts,
        "scoped_to_accounts": bool(asked.accounts),
    }


async def estimate_by_blocks(
    asked: EstimateQuestion,
    accounts: Sequence[str],
    blocks: Sequence[landed.BlockFees],
    of_all: landed.LevelsOfAll,
) -> Estimate:
    """Take the levels from landed transactions: of all, and of each account that enough of them locked."""
    percents = {**core.ESTIMATE_LEVELS, _ASKED: asked.percent}
    found = [of_all.levels(blocks, percents, asked.empty_as_zero)]
    counted = since_turn = 0
    for account in accounts:
        count, levels = landed.levels_of_account(
            blocks, bytes(Pubkey.from_string(account)), percents, asked.empty_as_zero
        )
        found.append(levels)
        counted += count
        since_turn += count + len(blocks)
        if since_turn >= _SORTED_AT_ONCE:
            since_turn = 0
            await asyncio.sleep(0)
    basis = {
        "source": "landed_transactions",
        "slots": len(blocks),
        "transactions": sum(len(block.prices) for block in blocks),
    }
    return _estimated(landed.highest(found), basis | ({"accountTransactions": counted} if accounts else {}))


def estimate_by_slots(asked: EstimateQuestion, is_scoped: bool, fees: list[int]) -> Estimate:
    """Take the levels from the lowest fee that each slot took."""
    taken = core.sample(fees, paid_slots_only=is_scoped and not asked.empty_as_zero)
    levels = core.levels(taken, {**core.ESTIMATE_LEVELS, _ASKED: asked.percent})
    return _estimated(levels, {"source": taken.basis.value, "slots": len(taken.fees), "transactions": None})


def _estimated(levels: dict[str, int], basis: dict[str, object]) -> Estimate:
    return Estimate(levels.pop(_ASKED), levels, basis)


def estimate(asked: EstimateQuestion, found: Estimate) -> Mapping[str, object]:
    fee = max(found.fee, core.RECOMMENDED_MIN) if asked.recommended else found.fee
    body: dict[str, object] = {"priorityFeeEstimate": fee}
    if asked.with_levels:
        body["priorityFeeLevels"] = found.levels
    return body | {"basis": found.basis}
