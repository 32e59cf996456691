"""Evidence of a paid call, for its entry in the ledger: the request, and a hash of what was asked and answered.

Implements: decisions, "Signed roots". A shell only where a large answer is hashed in a thread; on the path of every
call. Who has the parameters as they were sent and the answer as it came can show that a receipt is of these; nobody can
read them from it.
"""

import asyncio
from binascii import b2a_base64
from hashlib import sha256

from actors.calls import call_evidence
from actors.gateway.calls.admission import AdmittedCall
from actors.request_ids import current
from actors.upstream.replies import CACHE_HIT, NodeAnswer

HASHED_AT_ONCE_BYTES = 256 << 10  # Hashing so much takes 0.2 ms; a larger answer is hashed in a thread.
_JOINED_BYTES = 16 << 10
_DIGEST_BYTES, _DIGEST_CHARACTERS = 16, 22  # In base64, without its padding.


async def evidence_of(admitted: AdmittedCall, operation: bytes, answer: NodeAnswer, charged: int) -> str:
    """Empty where nothing is charged."""
    if not charged:
        return ""
    if len(answer.body) < HASHED_AT_ONCE_BYTES:
        return of_call(admitted, operation, answer, current())
    return await asyncio.to_thread(of_call, admitted, operation, answer, current())


def of_call(admitted: AdmittedCall, operation: bytes, answer: NodeAnswer, request_id: str) -> str:
    """The hash is over the parameters as they were sent, a line feed, and the answer as it leaves, with its id."""
    params, body = admitted.sent or admitted.params, answer.body
    if len(body) < _JOINED_BYTES:  # One call of the hash costs less than four.
        digest = sha256(b"%b\n%b%b%b" % (params, body[: answer.id_start], admitted.id, body[answer.id_end :]))
    else:
        view = memoryview(body)
        digest = sha256(params + b"\n")
        for part in (view[: answer.id_start], admitted.id, view[answer.id_end :]):
            digest.update(part)
    short = b2a_base64(digest.digest()[:_DIGEST_BYTES], newline=False)[:_DIGEST_CHARACTERS].decode()
    cache = answer.cache if answer.cache == CACHE_HIT else ""
    return call_evidence(operation, request_id, short, cache)
