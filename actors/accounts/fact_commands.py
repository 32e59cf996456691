"""Records facts of other contexts in the ledger of an account.

Implements: decisions, "One chain of facts"; money rule 6; threat 56. A shell: facts.py makes the entries. A reply
arrives when they are durable. Facts of other kinds come from the events that make them true, never from here.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from actors.accounts.activations import Activations
from actors.accounts.api import OfAccount, OwnerReply
from actors.accounts.facts import FactKind, fact_entry

BODIES_MAX = 16  # Bodies in one command: reading and writing them holds the event loop for less than 2 ms.
# Bytes of a body as JSON. A webhook that names 100 wallets and 100 programs has 10 kB.
BODY_BYTES_MAX = 16_384
_KINDS = (FactKind.WEBHOOK,)


class TellFacts(OfAccount[int], frozen=True):
    """Write facts of this kind, one entry each, in the order given. Value: how many were written.

    bodies: JSON objects. A repeated fact makes a second entry: the sender numbers its facts, so that the newest is
    known. ACCOUNT_NOT_FOUND; INVALID_REQUEST: another kind, too many, or too large.
    """

    kind: str
    bodies: tuple[Mapping[str, Any], ...]


class FactCommands:
    def __init__(self, activations: Activations) -> None:
        self._activations = activations

    async def tell(self, command: TellFacts) -> OwnerReply[Any]:
        account = await self._activations.account_for(command.pubkey, _mistake_in(command))
        if isinstance(account, OwnerReply):
            return account
        # The turn: all entries of the command are in one group.
        kind, now_ms = FactKind(command.kind), self._activations.moment().wall_ms
        for body in command.bodies:
            written = self._activations.record(account, fact_entry(account, kind, body, now_ms))
        await asyncio.shield(written)
        return OwnerReply(len(command.bodies))


def _mistake_in(command: TellFacts) -> str | None:
    if command.kind not in _KINDS:
        return f"facts told from outside are of kind {', '.join(_KINDS)}"
    if not 1 <= len(command.bodies) <= BODIES_MAX:
        return f"tell 1 to {BODIES_MAX} facts at once"
    for body in command.bodies:
        text = msgspec.json.encode(body)
        if len(text) > BODY_BYTES_MAX:
            return f"a fact is at most {BODY_BYTES_MAX} bytes of JSON"
        if rb"\u0000" in text:  # The audit parses bodies as jsonb, which cannot contain this character.
            return "a fact has no character U+0000"
    return None
