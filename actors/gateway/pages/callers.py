"""Finds the caller of an account's page, and turns an owner's refusal into the page's.

Implements: interface, "Authentication" and "HTTP statuses and bodies". Shared by the pages of this folder.
"""

from collections.abc import Sequence
from typing import Any

from actors.accounts.api import Command, OwnerReply, OwnersClient, OwnerUnavailable, Value
from actors.calls import Figures
from actors.errors import Err, Refusal
from actors.gateway.calls.headers import Header
from actors.gateway.calls.requests import Caller, RefusedCaller, Request
from actors.gateway.payments.authentication import Authenticator
from actors.identity.credentials import Accept

_NO_CREDENTIALS = "no credentials were sent"
_NOT_BY_PAYMENT = RefusedCaller(
    Err.PAYMENT_REQUIRED,
    "a payment does not open its payer's account, and this one was not taken; sign in with the wallet (sign-in-with-x, "
    "/auth/challenge or a signed request)",
    offers_payment=False,
)
OWNER_GONE = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the owner of this account does not answer at the moment")


def caller_of(authenticator: Authenticator, request: Request, accept: Accept) -> Caller | Refusal:
    """Return the caller of a page that is not public."""
    caller = authenticator.authenticate(request, accept, counts_refusals=False)
    if isinstance(caller, Caller) or caller.err is not Err.PAYMENT_REQUIRED:
        return caller
    if request.pays:
        return _NOT_BY_PAYMENT
    # The interface says: no credentials is a 402 with payment terms, though no payment opens these paths.
    return Refusal(Err.PAYMENT_REQUIRED, _NO_CREDENTIALS)


def refused(reply: OwnerReply[Any], added: Sequence[Header] = ()) -> Refusal:
    """Make the refusal of an owner's reply, with the account's figures if there are any."""
    assert reply.refusal is not None, reply
    return with_figures(Refusal(Err[reply.refusal], reply.detail), reply.figures, added)


async def owners_answer(accounts: OwnersClient, command: Command[Value]) -> Value | Refusal:
    """Return the value with which an owner answers a command, or a refusal."""
    try:
        reply = await accounts.ask(command)
    except OwnerUnavailable:
        return OWNER_GONE
    return refused(reply) if reply.value is None else reply.value


def with_figures(refusal: Refusal, figures: Figures | None, added: Sequence[Header] = ()) -> Refusal:
    remaining = None if figures is None else figures.credits_remaining
    return RefusedCaller(
        *(refusal.err, refusal.detail, refusal.hint, added),
        figures=figures,
        credits_remaining=remaining,
        retry_seconds=refusal.retry_seconds,
    )
