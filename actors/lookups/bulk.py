"""Bulk look-ups: each item succeeds or fails by itself.

Implements: interface, "Bulk endpoints"; decisions, "bulk list length" and the shapes below it.
A shell. gateway/doors/bulk.py has checked the items and removed repeated ones. Prices are in the catalog, and
gateway/calls/outcomes.py decides the charge: an item under `results` is paid for, one under `errors` is not.

Each answer names the commitment that its questions to the node have. Transactions are given in every version.
"""

from typing import Any, NamedTuple

import msgspec
import orjson

from actors.lookups.endpoints import VERSION_MAX, holdings_of
from actors.lookups.fan_out import ACCOUNTS_PER_CALL, Asker, Questions, fault_text
from actors.lookups.holdings import Holding, read_lamports
from actors.methods.accounts import BulkQuestion
from actors.methods.context_slots import MIN_SLOT
from actors.upstream import replies
from actors.upstream.account_view import current_view
from actors.upstream.replies import AnswerKind, MethodHandler, NodeAnswer

_NO_DATA = {"encoding": "base64", "dataSlice": {"offset": 0, "length": 0}}
_TRANSACTION = {"encoding": "json", "maxSupportedTransactionVersion": VERSION_MAX}

_ONE_SLOT_ROUNDS = 3  # The second round nearly always ends it: a slot lasts longer than a request.


class _Balances(NamedTuple):
    """The balances of a hundred addresses. slot: of all of them; None: their question failed."""

    slot: int | None
    rows: list[dict[str, Any]]


class BulkLookups:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def handlers(self) -> dict[str, MethodHandler]:
        """Return handlers by the look-up's name in the catalog. Each takes a BulkQuestion as JSON."""
        return {
            "bulk/getBalances": self._balances,
            "bulk/getTokenBalances": self._token_balances,
            "bulk/getTransactions": self._transactions,
        }

    async def _balances(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Look up a hundred addresses in one call to the node; when it fails, all hundred are errors.

        The answer says whether all balances are of one slot. A monotonic read asks again for those that are older.
        """
        asked, questions = _asked(params), self._asker.questions(timeout_ms)
        items, config = asked.items, _NO_DATA | {"commitment": asked.commitment}
        chunks = [items[start : start + ACCOUNTS_PER_CALL] for start in range(0, len(items), ACCOUNTS_PER_CALL)]

        async def of_chunk(chunk: tuple[str, ...], least: int = 0) -> _Balances:
            at_least = {MIN_SLOT: least} if least else {}
            answer = await questions.ask("getMultipleAccounts", chunk, config | at_least)
            if answer.kind is AnswerKind.RESULT:
                try:
                    slot, lamports = read_lamports(answer.value())
                    rows = [{"address": a, "lamports": held} for a, held in zip(chunk, lamports, strict=True)]
                    return _Balances(slot, rows)
                except (msgspec.DecodeError, ValueError):
                    answer = replies.GARBAGE
            return _Balances(None, [{"address": address, "error": fault_text(answer)} for address in chunk])

        parts = await questions.each(chunks, of_chunk)
        for _ in range(_ONE_SLOT_ROUNDS if current_view() is not None else 0):
            highest = max((part.slot for part in parts if part.slot is not None), default=0)
            older = [index for index, part in enumerate(parts) if part.slot is not None and part.slot < highest]
            if not older:
                break

            async def newer(index: int, least: int = highest) -> tuple[int, _Balances]:
                return index, await of_chunk(chunks[index], least)

            for index, part in await questions.each(older, newer):
                parts[index] = parts[index] if part.slot is None else part
        rows = [row for part in parts for row in part.rows]
        return _sorted_out(rows, asked, questions, _slot_json([part.slot for part in parts if part.slot is not None]))

    async def _token_balances(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked, questions = _asked(params), self._asker.questions(timeout_ms)

        async def of_owner(owner: str) -> dict[str, Any]:
            found = await holdings_of(questions, owner, asked.commitment)
            if isinstance(found, NodeAnswer):
                return {"owner": owner, "error": fault_text(found)}
            return {"owner": owner, "tokens": [_token_json(holding) for holding in found[1]]}

        return _sorted_out(await questions.each(asked.items, of_owner), asked, questions)

    async def _transactions(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        """Return the node's own bytes for each, or null where it has no such transaction. Null is a result too."""
        asked, questions = _asked(params), self._asker.questions(timeout_ms)
        config = _TRANSACTION | {"commitment": asked.commitment}

        async def of_signature(signature: str) -> dict[str, Any]:
            answer = await questions.ask("getTransaction", signature, config)
            if answer.kind is AnswerKind.RESULT:
                return {"signature": signature, "transaction": orjson.Fragment(answer.value())}
            return {"signature": signature, "error": fault_text(answer)}

        return _sorted_out(await questions.each(asked.items, of_signature), asked, questions)


def _asked(params: bytes) -> BulkQuestion:
    return msgspec.json.decode(params, type=BulkQuestion)


def _slot_json(slots: list[int]) -> dict[str, Any]:
    """Return the slot of all balances; with several slots, the answer says so."""
    if len(set(slots)) <= 1:
        return {"slot": slots[0] if slots else None}
    return {"slot": None, "slots": {"lowest": min(slots), "highest": max(slots)}}


def _sorted_out(
    rows: list[dict[str, Any]], asked: BulkQuestion, questions: Questions, more: dict[str, Any] | None = None
) -> NodeAnswer:
    results = [row for row in rows if "error" not in row]
    errors = [row for row in rows if "error" in row]
    body = orjson.dumps({"commitment": asked.commitment, **(more or {}), "results": results, "errors": errors})
    return replies.made_of_pieces(body, len(rows), len(results), questions.nodes)


def _token_json(holding: Holding) -> dict[str, Any]:
    return {
        "mint": holding.mint,
        "token_account": holding.token_account,
        "program": holding.program,
        "amount": str(holding.amount),
        "decimals": holding.decimals,
        "ui_amount_string": holding.ui_amount_string,
    }
