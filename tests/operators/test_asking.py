"""Requests about one account: what is parsed, and what the owner's silence becomes."""

from typing import Any

import pytest

from actors.accounts.api import Describe, OwnerUnavailable
from actors.errors import Err, Refusal
from actors.operators import bodies
from actors.operators.asking import asked, change_of, pubkey_of
from actors.pages import PageRequest
from actors.units import base58_text
from tests.accounts.making import ALICE


def request(pubkey: str, body: bytes = b"{}") -> PageRequest:
    return PageRequest(None, body=body, parameters={"pubkey": pubkey})


def test_a_change_has_the_account_of_the_path_and_the_body() -> None:
    wanted = bodies.Because(reason="fraud")
    assert change_of(request(base58_text(ALICE), b'{"reason": "fraud"}'), bodies.Because) == (ALICE, wanted)


@pytest.mark.parametrize(("pubkey", "body"), [("alice", b'{"reason": "fraud"}'), (base58_text(ALICE), b"{}")])
def test_a_path_or_a_body_with_a_mistake_is_refused(pubkey: str, body: bytes) -> None:
    refusal = change_of(request(pubkey, body), bodies.Because)
    assert isinstance(refusal, Refusal) and refusal.err is Err.INVALID_REQUEST
    assert isinstance(pubkey_of(request("alice")), Refusal)


async def test_an_owner_that_does_not_answer_is_a_refusal() -> None:
    class Owners:
        async def ask(self, command: Any) -> Any:
            raise OwnerUnavailable("the owner is restarting")

    refusal = await asked(Owners(), Describe(ALICE))  # type: ignore[arg-type]
    assert isinstance(refusal, Refusal) and refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
