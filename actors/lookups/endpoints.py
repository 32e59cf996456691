"""The methods of this context; getTransactionHistory: the calls to the node, and how a failed one ends them.

Implements: interface, "getTransactionHistory".
A shell: history_entry.py makes the replies. Parameters are checked before (methods/history.py). asset_methods.py has
the methods about tokens.

A reply is complete or the call fails: the first failed call to the node becomes the answer, and it costs nothing.
"""

from typing import Any

import msgspec
import orjson

from actors.addresses import TOKEN_PROGRAMS
from actors.lookups import history_entry
from actors.lookups.asset_methods import AssetMethods
from actors.lookups.fan_out import Asker, Questions, fault_text
from actors.lookups.holdings import Holding, read_holdings
from actors.methods.history import HistoryQuestion
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, MethodHandler, NodeAnswer

VERSION_MAX = 1  # The newest version: legacy, v0 and v1 exist.
_UNSUPPORTED_VERSION_CODE = -32015  # About one transaction; other errors concern the node.
_NOT_UNDERSTOOD = "It cannot be shown: the node's form of it is not understood."
_MALFORMED = (KeyError, TypeError, IndexError, ValueError, AttributeError, msgspec.DecodeError)


class LookupMethods:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def handlers(self) -> dict[str, MethodHandler]:
        """Return handlers by method name. Each takes a question of methods/history.py or methods/assets.py as JSON."""
        return AssetMethods(self._asker).handlers() | {"getTransactionHistory": self._history}

    async def _history(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked = msgspec.json.decode(params, type=HistoryQuestion)
        questions = self._asker.questions(timeout_ms)
        bounds = {"before": asked.before, "until": asked.until}
        config = {"limit": asked.limit, "commitment": asked.commitment}
        config |= {name: signature for name, signature in bounds.items() if signature is not None}
        listing = await questions.ask("getSignaturesForAddress", asked.address, config)
        if listing.kind is not AnswerKind.RESULT:
            return listing
        failures: list[NodeAnswer] = []

        async def one(listed: dict[str, Any]) -> bytes | None:
            if failures:
                return None  # The whole call has failed, so the remaining transactions are not fetched.
            made = await _entry(questions, asked, listed)
            if isinstance(made, NodeAnswer):
                failures.append(made)
                return None
            return made

        answer = replies.GARBAGE
        try:
            entries = await questions.each(orjson.loads(listing.value()), one)
            shown = [orjson.Fragment(entry) for entry in entries if entry is not None]
            answer = replies.made(orjson.dumps({"transactions": shown, "count": len(shown)}), questions.nodes)
        except* _MALFORMED:
            pass
        return failures[0] if failures else answer


async def _entry(questions: Questions, asked: HistoryQuestion, listed: dict[str, Any]) -> bytes | NodeAnswer:
    """Build one entry as JSON. Raises one of _MALFORMED when this line of the listing is malformed."""
    config = {
        "encoding": "jsonParsed",
        "commitment": asked.commitment,
        "maxSupportedTransactionVersion": VERSION_MAX,
    }
    answer = await questions.ask("getTransaction", listed["signature"], config)
    if answer.kind is AnswerKind.ERROR and answer.error_code == _UNSUPPORTED_VERSION_CODE:
        return orjson.dumps(history_entry.missing_entry(listed, f"It cannot be shown: {fault_text(answer)}."))
    if answer.kind is not AnswerKind.RESULT:
        return answer
    transaction = orjson.loads(answer.value())
    if transaction is None:
        return orjson.dumps(history_entry.missing_entry(listed))
    try:
        return orjson.dumps(history_entry.entry(asked.address, listed, transaction))
    except _MALFORMED:  # One transaction of an unknown form must not hide the others.
        return orjson.dumps(history_entry.missing_entry(listed, _NOT_UNDERSTOOD))


async def holdings_of(questions: Questions, owner: str, commitment: str = "") -> tuple[int, list[Holding]] | NodeAnswer:
    """Return (slot of the older answer, token accounts of both token programs), or the failed answer.

    commitment: empty is the node's default, finalized.
    """
    config = {"encoding": "jsonParsed"} | _at(commitment)

    async def of_program(program: str) -> NodeAnswer:
        return await questions.ask("getTokenAccountsByOwner", owner, {"programId": program}, config)

    answers = await questions.each(TOKEN_PROGRAMS, of_program)
    for answer in answers:
        if answer.kind is not AnswerKind.RESULT:
            return answer
    try:
        read = [read_holdings(answer.value()) for answer in answers]
    except _MALFORMED:
        return replies.GARBAGE
    return min(slot for slot, _ in read), [holding for _, held in read for holding in held]


def _at(commitment: str) -> dict[str, str]:
    return {"commitment": commitment} if commitment else {}
