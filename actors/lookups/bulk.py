"""Bulk look-ups: each item by itself, what failed beside what was found.

Implements: interface specification, "Bulk endpoints"; decisions, "bulk list length" and the shapes below it.
A shell. Items arrive checked and each once (gateway/bulk_requests.py); prices are the catalog's, and what an answer
costs is gateway/outcomes.py's: an item under `results` is paid for, one under `errors` is not.

Balances are what the single call answers without configuration; transactions are given from `confirmed` on, in every
version there is.
"""

from typing import Any

import msgspec
import orjson

from actors.lookups.endpoints import ACCOUNTS_PER_CALL, VERSION_MAX, holdings_of
from actors.lookups.fan_out import Asker, Questions, fault_text
from actors.lookups.holdings import Holding, read_lamports
from actors.method_requests import BulkQuestion
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, MethodHandler, NodeAnswer

_NO_DATA = {"encoding": "base64", "dataSlice": {"offset": 0, "length": 0}}
_TRANSACTION = {"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": VERSION_MAX}


class BulkLookups:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def handlers(self) -> dict[str, MethodHandler]:
        """By the name that the catalog has for the look-up; params are a BulkQuestion."""
        return {
            "bulk/getBalances": self._balances,
            "bulk/getTokenBalances": self._token_balances,
            "bulk/getTransactions": self._transactions,
        }

    async def _balances(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        """A hundred addresses a question; when one fails, so do its hundred."""
        items, questions = _asked(params), self._asker.questions(timeout_ms)
        chunks = [items[start : start + ACCOUNTS_PER_CALL] for start in range(0, len(items), ACCOUNTS_PER_CALL)]

        async def of_chunk(chunk: tuple[str, ...]) -> list[dict[str, Any]]:
            answer = await questions.ask("getMultipleAccounts", chunk, _NO_DATA)
            if answer.kind is AnswerKind.RESULT:
                try:
                    lamports = read_lamports(answer.value())
                    return [{"address": a, "lamports": held} for a, held in zip(chunk, lamports, strict=True)]
                except (msgspec.DecodeError, ValueError):
                    answer = replies.GARBAGE
            return [{"address": address, "error": fault_text(answer)} for address in chunk]

        rows = [row for rows in await questions.each(chunks, of_chunk) for row in rows]
        return _sorted_out(rows, questions)

    async def _token_balances(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        items, questions = _asked(params), self._asker.questions(timeout_ms)

        async def of_owner(owner: str) -> dict[str, Any]:
            found = await holdings_of(questions, owner)
            if isinstance(found, NodeAnswer):
                return {"owner": owner, "error": fault_text(found)}
            return {"owner": owner, "tokens": [_token_json(holding) for holding in found[1]]}

        return _sorted_out(await questions.each(items, of_owner), questions)

    async def _transactions(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        """The node's own bytes for each, null where it has none; absent counts as answered."""
        items, questions = _asked(params), self._asker.questions(timeout_ms)

        async def of_signature(signature: str) -> dict[str, Any]:
            answer = await questions.ask("getTransaction", signature, _TRANSACTION)
            if answer.kind is AnswerKind.RESULT:
                return {"signature": signature, "transaction": orjson.Fragment(answer.value())}
            return {"signature": signature, "error": fault_text(answer)}

        return _sorted_out(await questions.each(items, of_signature), questions)


def _asked(params: bytes) -> tuple[str, ...]:
    return msgspec.json.decode(params, type=BulkQuestion).items


def _sorted_out(rows: list[dict[str, Any]], questions: Questions) -> NodeAnswer:
    results = [row for row in rows if "error" not in row]
    errors = [row for row in rows if "error" in row]
    body = orjson.dumps({"results": results, "errors": errors})
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
