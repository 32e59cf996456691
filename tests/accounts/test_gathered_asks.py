"""Questions that wait go in one message, each gets its own answer, and one that fails hides no other."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from actors.accounts.api import OwnerReply, ReadStanding
from actors.accounts.gathered_asks import MESSAGE_MAX, GatheredAsks
from actors.calls import ProvenProof
from actors.hosting import ActorUnreachable


class Owner:
    """Answers each question with the key that it names, once it may."""

    def __init__(self) -> None:
        self.messages: list[int] = []
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None

    async def ask_many(self, commands: Sequence[Any]) -> list[OwnerReply[Any]]:
        self.messages.append(len(commands))
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return [OwnerReply(command.proof.pubkey) for command in commands]


def question(number: int) -> ReadStanding:
    return ReadStanding(ProvenProof(number.to_bytes(32, "big")))


async def test_questions_of_one_round_and_those_that_come_meanwhile_go_together() -> None:
    owner = Owner()
    asks = GatheredAsks(owner.ask_many)
    first = [asyncio.create_task(asks.ask(question(number))) for number in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = [asyncio.create_task(asks.ask(question(number))) for number in range(5, 5 + MESSAGE_MAX + 1)]
    await asyncio.sleep(0)
    owner.may_answer.set()
    replies = await asyncio.gather(*first, *later)
    assert [int.from_bytes(reply.value, "big") for reply in replies] == list(range(6 + MESSAGE_MAX))
    assert owner.messages == [5, MESSAGE_MAX, 1]


@pytest.mark.parametrize("failure", [ActorUnreachable("down"), RuntimeError("a bug")])
async def test_an_owner_that_fails_is_told_to_each_and_asked_again(failure: Exception) -> None:
    owner = Owner()
    owner.may_answer.set()
    owner.failure = failure
    asks = GatheredAsks(owner.ask_many)
    told = await asyncio.gather(asks.ask(question(1)), asks.ask(question(2)), return_exceptions=True)
    assert told == [failure, failure]
    owner.failure = None
    assert (await asks.ask(question(3))).value == (3).to_bytes(32, "big")


async def test_a_question_whose_asker_has_left_is_not_asked() -> None:
    owner = Owner()
    asks = GatheredAsks(owner.ask_many)
    first = asyncio.create_task(asks.ask(question(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    left, stays = (asyncio.create_task(asks.ask(question(number))) for number in (2, 3))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.sleep(0)
    owner.may_answer.set()
    assert [(await task).value[-1] for task in (first, stays)] == [1, 3]
    assert owner.messages == [1, 1]
