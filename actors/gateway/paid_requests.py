"""A request that comes with a payment: what of it is looked at before money moves, and how it goes on afterwards.

Implements: decisions 3.6; the 402's edge cases (a payment beside credentials, a batch, a call that is refused anyway).
Pure. Reading and settling the payment is payments.py's; answering is the door's.

No payment is taken for a request that would be refused for free whoever asks, nor where the answer without it would
not be an offer of x402 terms.
"""

from collections.abc import Sequence

from actors.errors import Refusal
from actors.gateway.admission import admit
from actors.gateway.jsonrpc import BadCall, Call
from actors.gateway.pipeline import Replies, Reply
from actors.gateway.replies import Response
from actors.gateway.requests import Request

_CREDENTIALS = frozenset((b"x-api-key", b"x-pubkey", b"x-signature", b"x-timestamp", b"x-nonce", b"authorization"))
_OFFER = b"payment-required"


def refused_for_free(parsed: Call | BadCall | Sequence[Call | BadCall]) -> Replies | None:
    """The replies to a request of which nothing could be charged; None when there is something to pay for."""
    calls = parsed if isinstance(parsed, Sequence) else (parsed,)
    refused: list[Reply] = []
    for call in calls:
        verdict = admit(call) if isinstance(call, Call) else call.refusal
        if not isinstance(verdict, Refusal):
            return None
        refused.append(Reply(call.id, None, verdict))
    return Replies(refused, None, None)


def is_offer(response: Response) -> bool:
    """Whether this answer asks for a payment that could be taken."""
    return response.status == 402 and any(name == _OFFER for name, _ in response.headers)


def has_credentials(request: Request) -> bool:
    return without_credentials(request) != request


def without_credentials(request: Request) -> Request:
    """As a stranger would send it: the payment says who calls."""
    kept = [pair for pair in request.headers if pair[0] not in _CREDENTIALS]
    parts = [part for part in request.query.split(b"&") if not part.startswith(b"api-key=")]
    return Request(request.method, request.path, b"&".join(parts), kept, request.body, request.id, request.peer)


def under_session(request: Request, token: str) -> Request:
    bare = without_credentials(request)
    bare.headers.append((b"authorization", b"Bearer " + token.encode()))
    return bare
