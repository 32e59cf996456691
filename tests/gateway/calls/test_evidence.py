import asyncio

import pytest

from actors.calls import Evidence, read_evidence, send_evidence
from actors.gateway.calls import evidence
from actors.gateway.calls.admission import AdmittedCall, admit
from actors.gateway.calls.evidence import evidence_of, hash_for, of_call
from actors.gateway.calls.jsonrpc import Call, parse
from actors.upstream.large_bodies import HASHED_FOR, LargeBody
from actors.upstream.replies import NodeAnswer, judge_large, made
from ledger_gateway.receipts import digest_of

real_to_thread = asyncio.to_thread


def admitted(body: bytes) -> AdmittedCall:
    call = parse(body)
    assert isinstance(call, Call)
    done = admit(call)
    assert isinstance(done, AdmittedCall)
    return done


OPERATION = bytes.fromhex("5e5c796d621c8fb20000000000000007")


@pytest.mark.parametrize("params", [b'["11111111111111111111111111111111"]', b'[ "11111111111111111111111111111111" ]'])
@pytest.mark.parametrize("raw_id", [b"1", b'"a,\\u00e9"', b"null"])
@pytest.mark.parametrize("request_id", ["5e5c796d62-1f", "5e5c796d63-1f", "c0ffee"])
def test_the_digest_is_of_the_bytes_that_the_client_has(params: bytes, raw_id: bytes, request_id: str) -> None:
    """Its parameters with their spaces, and the answer with its id."""
    call = admitted(b'{"jsonrpc":"2.0","id":%b,"method":"getBalance","params":%b}' % (raw_id, params))
    answer = made(b'{"value":5}')
    kept = of_call(call, OPERATION, answer, request_id)
    assert read_evidence(OPERATION, kept) == Evidence(request_id, digest_of(params, answer.reply(raw_id)))
    assert kept.startswith("-1f ") == (request_id[:10] == OPERATION.hex()[:10])


async def test_a_large_answer_has_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is hashed in parts, and in a thread. What is not charged is not hashed."""
    call, answer = admitted(b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'), made(b'"' + b"x" * 5_000 + b'"')
    small = await evidence_of(call, OPERATION, answer, 1)
    monkeypatch.setattr(evidence, "_JOINED_BYTES", 10)
    assert await evidence_of(call, OPERATION, answer, 1) == small
    monkeypatch.setattr(evidence, "HASHED_AT_ONCE_BYTES", 10)
    assert await evidence_of(call, OPERATION, answer, 1) == small and digest_of(b"[]", answer.reply(b"1")) in small
    assert await evidence_of(call, OPERATION, answer, 0) == ""


def test_evidence_of_a_send_and_of_nothing_is_read_too() -> None:
    assert read_evidence(OPERATION, send_evidence("5ig")) == Evidence(transaction="5ig")
    assert read_evidence(OPERATION, "") == Evidence()


@pytest.mark.parametrize("mine", [True, False])
async def test_a_large_answer_is_hashed_once_for_whom_it_was_asked(monkeypatch: pytest.MonkeyPatch, mine: bool) -> None:
    """By the way that the node's answer takes; a caller with another id, who shares it, has a hash of its own."""
    asker = admitted(b'{"jsonrpc":"2.0","id":7,"method":"getSlot"}')
    caller = asker if mine else admitted(b'{"jsonrpc":"2.0","id":8,"method":"getSlot"}')

    async def ask() -> NodeAnswer:
        body = LargeBody(HASHED_FOR.get())
        for _ in range(5):
            body.add(b'{"jsonrpc":"2.0","result":"' + b"x" * 70_000 if not body.size else b"y" * 70_000)
        body.add(b'","id":1}')
        answer = judge_large(body, "a", None, b"1")
        assert answer is not None
        return answer

    hash_for(asker, bytes(32))
    answer, threads = await ask(), []
    monkeypatch.setattr(evidence.asyncio, "to_thread", lambda *work: threads.append(work) or real_to_thread(*work))
    kept = await evidence_of(caller, OPERATION, answer, 1)
    assert digest_of(b"[]", answer.reply(caller.id)) in kept
    assert (len(threads) == 0) is mine


async def test_parts_of_a_composed_answer_are_not_hashed() -> None:
    """None of them is the call's answer."""
    composed = admitted(b'{"jsonrpc":"2.0","id":7,"method":"suggestPriorityFee"}')
    hash_for(admitted(b'{"jsonrpc":"2.0","id":7,"method":"getSlot"}'), bytes(32))
    assert HASHED_FOR.get() == (b"[]", b"7", bytes(32))
    hash_for(composed, bytes(32))
    assert HASHED_FOR.get() is None
