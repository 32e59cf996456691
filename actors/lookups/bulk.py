"""Bulk look-ups: each item succeeds or fails by itself.

Implements: interface, "Bulk endpoints"; decisions, "bulk list length" and the shapes below it.
A shell. gateway/doors/bulk.py has checked the items and removed repeated ones. Prices are in the catalog, and
gateway/calls/outcomes.py decides the charge: an item under `results` is paid for, one under `errors` is not.

Each answer names the commitment that its questions to the node have. Transactions are given in every version.
"""

from typing import Any

import msgspec
import orjson

from actors.lookups.endpoints import VERSION_MAX, holdings_of
from actors.lookups.fan_out import ACCOUNTS_PER_CALL, Asker, Questions, fault_text
from actors.lookups.holdings import Holding, read_lamports
from actors.methods.accounts import BulkQuestion
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, MethodHandler, NodeAnswer

_NO_DATA = {"encoding": "base64", "dataSlice": {"offset": 0, "length": 0}}
_TRANSACTION = {"encoding": "json", "maxSupportedTransactionVersion": VERSION_MAX}


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
        """Look up a hundred addresses in one call to the node; when it fails, all hundred are errors."""
        asked, questions = _asked(params), self._asker.questions(timeout_ms)
        items, config = asked.items, _NO_DATA | {"commitment": asked.commitment}
        chunks = [items[start : start + ACCOUNTS_PER_CALL] for start in range(0, len(items), ACCOUNTS_PER_CALL)]

        async def of_chunk(chunk: tuple[str, ...]) -> list[dict[str, Any]]:
            answer = await questions.ask("getMultipleAccounts", chunk, config)
            if answer.kind is AnswerKind.RESULT:
                try:
                    lamports = read_lamports(answer.value())
                    return [{"address": a, "lamports": held} for a, held in zip(chunk, lamports, strict=True)]
                except (msgspec.DecodeError, ValueError):
                    answer = replies.GARBAGE
            return [{"address": address, "error": fault_text(answer)} for address in chunk]

        rows = [row for rows in await questions.each(chunks, of_chunk) for row in rows]
        return _sorted_out(rows, asked, questions)

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


def _sorted_out(rows: list[dict[str, Any]], asked: BulkQuestion, questions: Questions) -> NodeAnswer:
    results = [row for row in rows if "error" not in row]
    errors = [row for row in rows if "error" in row]
    body = orjson.dumps({"commitment": asked.commitment, "results": results, "errors": errors})
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
