"""Asks the owner of an account for the operators' pages, and parses requests about one account.

Implements: decisions, "The operators' page". A shell.
"""

from actors.accounts.api import Command, OwnerReply, OwnersClient, OwnerUnavailable, Value
from actors.errors import Err, Refusal
from actors.operators import bodies
from actors.pages import PageRequest
from actors.units import parse_pubkey

_GONE = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "the owner of this account does not answer at the moment")
_NO_PUBKEY = Refusal(Err.INVALID_REQUEST, "that is not a base58 public key of 32 bytes")


def pubkey_of(request: PageRequest) -> bytes | Refusal:
    """Parse the account of the path."""
    return parse_pubkey(request.parameters["pubkey"]) or _NO_PUBKEY


def change_of(request: PageRequest, kind: type[bodies.Body]) -> tuple[bytes, bodies.Body] | Refusal:
    """Parse the account of the path, and the body."""
    pubkey, wanted = pubkey_of(request), bodies.decoded(request.body, kind)
    if isinstance(pubkey, Refusal):
        return pubkey
    return wanted if isinstance(wanted, Refusal) else (pubkey, wanted)


async def asked(accounts: OwnersClient, command: Command[Value]) -> Value | Refusal:
    try:
        reply: OwnerReply[Value] = await accounts.ask(command)
    except OwnerUnavailable:
        return _GONE
    if reply.value is None:
        assert reply.refusal is not None, reply
        return Refusal(Err[reply.refusal], reply.detail)
    return reply.value
