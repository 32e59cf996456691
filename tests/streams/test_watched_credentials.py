"""Streams hear of a credential that is revoked."""

import pytest

from actors.accounts.api import OwnerUnavailable
from actors.calls import KeyProof
from actors.errors import Err, Refusal
from actors.streams.watched_credentials import WatchedCredentials
from tests.gateway.doubles import PROOF, OneAccount, unavailable

OTHER = KeyProof(b"o" * 32, bytes(8))


def watched(account: OneAccount) -> WatchedCredentials:
    return WatchedCredentials(account, lambda: b"operation-id-16b")  # type: ignore[arg-type]


@pytest.mark.parametrize("err", ["AUTH_FAILED", "METHOD_NOT_ALLOWED"])
async def test_every_stream_of_a_revoked_credential_is_told(err: str) -> None:
    """One question for all streams of a credential; it holds nothing."""
    account, told = OneAccount(10), list[Refusal]()
    watching = watched(account)
    for stream in range(3):
        watching.join(PROOF, stream, told.append)
    await watching.look()
    assert told == [] and len(account.holds) == 1 and account.holds[0].items == ()
    account.refusal = err
    await watching.look()
    assert [refusal.err for refusal in told] == [Err[err]] * 3


async def test_an_owner_that_is_away_has_revoked_nothing() -> None:
    account, told = OneAccount(10), list[Refusal]()
    watching = watched(account)
    watching.join(PROOF, 1, told.append)
    account.before_hold = unavailable
    with pytest.raises(OwnerUnavailable):
        await unavailable(None)
    await watching.look()
    account.before_hold, account.refusal = None, "RATE_LIMITED"
    await watching.look()
    assert told == []


async def test_a_stream_that_left_is_not_told_and_not_asked_about() -> None:
    account, told = OneAccount(10), list[Refusal]()
    watching = watched(account)
    watching.join(PROOF, 1, told.append)
    watching.join(OTHER, 2, told.append)
    watching.leave(PROOF, 1)
    watching.leave(PROOF, 1)
    account.refusal = "AUTH_FAILED"
    await watching.look()
    assert len(told) == 1 and [request.proof for request in account.holds] == [OTHER]
