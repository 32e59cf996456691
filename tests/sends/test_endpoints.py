"""The methods that send, over a chain that executes: preflight, outcomes, and what is told when the racer is away."""

import base64

import base58
import orjson
import pytest
from solders.pubkey import Pubkey

from actors.calls import Outcome, SettleRequest
from actors.clock import ManualClock
from actors.errors import Err
from actors.methods.entries import encoded
from actors.methods.sends import RaceQuestion, SendStatusQuestion, SmartSendQuestion
from actors.methods.signed_transactions import SignedTransaction
from actors.sends.api import RaceRefused, RaceResult, RacerUnreachable, WantedRace
from actors.sends.chain import SendChain
from actors.sends.core import RaceState
from actors.sends.endpoints import _NOT_SENT_HERE, SendMethods, _said_of
from actors.upstream.replies import UNREACHABLE, AnswerKind, DeferredAnswer, NodeAnswer, refused
from tests.sends.conftest import Here, signed, text
from tests.sends.making import NOW, a_race, a_ticket

HOLD = SettleRequest(b"o" * 16, b"p" * 32, 3, "sendAndConfirm", 50, 0, int(Outcome.RELEASED), 7)
LANDED = a_race(state=RaceState.CONFIRMED, slot=105, ended_at_ms=NOW + 900)


class Racer:
    def __init__(self, result: RaceResult | RaceRefused | None) -> None:
        self.result, self.wanted = result, list[WantedRace]()

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused:
        self.wanted.append(wanted)
        if self.result is None:
            raise RacerUnreachable("gone")
        return self.result

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None:
        assert pubkey == HOLD.pubkey
        if self.result is None:
            raise RacerUnreachable("gone")
        return self.result if signature == LANDED.signature and isinstance(self.result, RaceResult) else None

    async def has_sent(self, signature: bytes) -> bool:
        raise RacerUnreachable("gone")


class Methods:
    def __init__(self, here: Here, result: RaceResult | RaceRefused | None) -> None:
        self.racer = Racer(result)
        self.made = SendMethods(self.racer, SendChain(here), 2, ManualClock())

    async def race(self, transaction: str, preflight: str | None = None) -> NodeAnswer:
        asked = encoded(RaceQuestion(transaction, preflight))
        return await self.made.caller_handlers()["sendAndConfirm"](asked, HOLD, 30_000)

    async def status(self, signature: bytes) -> NodeAnswer:
        asked = encoded(SendStatusQuestion(base58.b58encode(signature).decode()))
        return await self.made.caller_handlers()["getSendStatus"](asked, HOLD, 30_000)

    async def smart(self, transaction: str, simulate: bool) -> NodeAnswer:
        return await self.made.handlers()["sendSmartTransaction"](
            encoded(SmartSendQuestion(transaction, simulate)), 10_000
        )


def result(charged: int | None = 50) -> RaceResult:
    return RaceResult(LANDED, a_ticket(charged=charged), (), False)


async def test_a_race_gets_the_hold_and_its_prices(here: Here) -> None:
    methods, payment = Methods(here, result()), here.payment()
    answer = await methods.race(text(payment))
    assert isinstance(answer, DeferredAnswer) and orjson.loads(answer.value())["status"] == "confirmed"
    assert methods.racer.wanted == [
        WantedRace(payment.raw, HOLD.operation, HOLD.pubkey, 3, "sendAndConfirm", landing=50, base=2)
    ]


async def test_a_preflight_that_fails_sends_nothing(here: Here) -> None:
    """Interface: fully refunded, and nothing is broadcast; the error is the node's own."""
    methods = Methods(here, result())
    poor = signed(here.local.transfer(here.local.wallet(), Pubkey.new_unique(), 10**15))
    answer = await methods.race(text(poor), "processed")
    assert answer.kind is AnswerKind.ERROR and not isinstance(answer, DeferredAnswer)
    error = orjson.loads(answer.value())
    assert (error["code"], error["data"]["source"]) == (-32002, "gateway")
    assert error["message"] == (await poor_send(here, poor)).error_message
    assert error["data"]["err"] is not None and error["data"]["logs"]
    assert methods.racer.wanted == []


async def poor_send(here: Here, poor: SignedTransaction) -> NodeAnswer:
    """The node's own preflight of the same transaction."""
    params = orjson.dumps([text(poor), {"encoding": "base64", "preflightCommitment": "processed"}])
    return await here.call("sendTransaction", params, 5_000)


@pytest.mark.parametrize(
    ("error", "logs", "said"),
    [
        ("BlockhashNotFound", [], "BlockhashNotFound"),
        (
            {"InstructionError": [2, "MissingRequiredSignature"]},
            ["Program x invoke [1]", "Program 11111111111111111111111111111111 failed: missing required signature"],
            "Error processing Instruction 2: missing required signature",
        ),
        ({"InstructionError": [2, "UnsupportedProgramId"]}, None, '{"InstructionError":[2,"UnsupportedProgramId"]}'),
        ({"InstructionError": [0, {"BorshIoError": "x"}]}, ["x"], '{"InstructionError":[0,{"BorshIoError":"x"}]}'),
        ({"InsufficientFundsForRent": {"account_index": 1}}, [], '{"InsufficientFundsForRent":{"account_index":1}}'),
    ],
)
def test_a_failed_simulation_is_told_in_the_nodes_words_as_far_as_they_are_known(error, logs, said) -> None:
    assert _said_of(error, logs) == said


async def test_a_preflight_that_is_not_answered_sends_nothing(here: Here) -> None:
    """Unavailable means nothing broadcast, nothing charged."""
    methods, payment = Methods(here, result()), here.payment()
    here.silent = True
    assert (await methods.race(text(payment), "processed")).kind is AnswerKind.TIMED_OUT
    assert methods.racer.wanted == []


async def test_a_preflight_that_passes_begins_the_race(here: Here) -> None:
    methods = Methods(here, result())
    assert isinstance(await methods.race(text(here.payment()), "processed"), DeferredAnswer)


async def test_a_racer_that_says_nothing_leaves_the_outcome_unknown(here: Here) -> None:
    """It may have begun; never an error that makes a client sign another transaction."""
    methods, payment = Methods(here, None), here.payment()
    answer = await methods.race(text(payment))
    assert isinstance(answer, DeferredAnswer)
    body = orjson.loads(answer.value())
    assert body["status"] == "unknown" and body["charged_credits"] == 50
    assert base58.b58decode(body["signature"]) == payment.signature and "getSendStatus" in body["error"]


async def test_the_status_is_told_to_the_sender_alone(here: Here) -> None:
    methods = Methods(here, result())
    body = orjson.loads((await methods.status(LANDED.signature)).value())
    assert body["status"] == "confirmed" and body["legs"] == {} and body["updated_at"] > 0
    assert await methods.status(b"z" * 64) == refused(_NOT_SENT_HERE) and _NOT_SENT_HERE.err is Err.INVALID_PARAMS
    assert await Methods(here, None).status(LANDED.signature) == UNREACHABLE


async def test_a_smart_send_goes_out_at_once(here: Here) -> None:
    payment = here.payment()
    answer = await Methods(here, None).smart(text(payment), simulate=False)
    assert base58.b58decode(orjson.loads(answer.value())) == payment.signature and here.landed(payment)


async def test_a_smart_send_that_fails_its_simulation_does_not(here: Here) -> None:
    methods, calls = Methods(here, None), here.calls
    poor = signed(here.local.transfer(here.local.wallet(), Pubkey.new_unique(), 10**15))
    answer = await methods.smart(text(poor), simulate=True)
    assert answer.kind is AnswerKind.ERROR and "sendTransaction" not in calls
    assert base64.b64decode(text(poor)) == poor.raw
