"""Evidence of a paid call, for its entry in the ledger: the request, and a hash of what was asked and answered.

Implements: decisions, "Signed roots". A shell only where a large answer is hashed in a thread; on the path of every
call. Who has the parameters as they were sent and the answer as it came can show that a receipt is of these; nobody can
read them from it. A large answer is hashed while the node sends it (upstream/large_bodies.py); the thread is for those
that several callers share, or that were kept.
"""

import asyncio
from binascii import b2a_base64
from hashlib import sha256

from actors.calls import call_evidence
from actors.gateway.calls.admission import AdmittedCall
from actors.request_ids import current
from actors.upstream.large_bodies import HASHED_FOR
from actors.upstream.replies import CACHE_HIT, NodeAnswer

HASHED_AT_ONCE_BYTES = 256 << 10  # Hashing this many bytes takes 0.2 ms; a larger answer is hashed in a thread.
_JOINED_BYTES = 16 << 10
_DIGEST_BYTES, _DIGEST_CHARACTERS = 16, 22  # As base64 without padding.


def evidence_at_once(admitted: AdmittedCall, operation: bytes, answer: NodeAnswer, charged: int) -> str | None:
    """Return the evidence of a call; empty where nothing is charged. None: `evidence_of` has to hash a large answer.

    On the path of every call, which pays for each coroutine.
    """
    if not charged:
        return ""
    if answer.size < HASHED_AT_ONCE_BYTES or _was_hashed(admitted, answer):
        return of_call(admitted, operation, answer, current())
    return None


async def evidence_of(admitted: AdmittedCall, operation: bytes, answer: NodeAnswer, charged: int) -> str:
    """Return the evidence of a call; a large answer is hashed in a thread."""
    found = evidence_at_once(admitted, operation, answer, charged)
    if found is not None:
        return found
    return await asyncio.to_thread(of_call, admitted, operation, answer, current())


def hash_for(admitted: AdmittedCall, account: bytes) -> None:
    """From now on, a large answer that this task asks for is hashed for this call while it arrives, so that it need not
    be read once more, and takes memory of this account's share. Of a method that takes several questions, no single
    answer is the call's."""
    HASHED_FOR.set((admitted.sent or admitted.params, admitted.id, account) if admitted.plan.asks_node else None)


def _was_hashed(admitted: AdmittedCall, answer: NodeAnswer) -> bool:
    """Return whether the answer was hashed for this call, or for one with the same parameters and id."""
    found = answer.hashed
    if found is None:
        return False
    return found.raw_id == admitted.id and found.params == (admitted.sent or admitted.params)


def of_call(admitted: AdmittedCall, operation: bytes, answer: NodeAnswer, request_id: str) -> str:
    """Hash the parameters as sent, a line feed, and the answer as it leaves, with its id."""
    params = admitted.sent or admitted.params
    if answer.hashed is not None and _was_hashed(admitted, answer):
        digest = answer.hashed.digest
    elif not answer.further and len(answer.first) < _JOINED_BYTES:  # One call of the hash costs less than four.
        digest = sha256(b"%b\n%b" % (params, answer.reply(admitted.id))).digest()
    else:
        hashing = sha256(params + b"\n")
        for part in answer.reply_parts(admitted.id):
            hashing.update(part)
        digest = hashing.digest()
    short = b2a_base64(digest[:_DIGEST_BYTES], newline=False)[:_DIGEST_CHARACTERS].decode()
    cache = answer.cache if answer.cache == CACHE_HIT else ""
    return call_evidence(operation, request_id, short, cache)
