import pytest

from actors.calls import Evidence, read_evidence, send_evidence
from actors.gateway.calls import evidence
from actors.gateway.calls.admission import AdmittedCall, admit
from actors.gateway.calls.evidence import evidence_of, of_call
from actors.gateway.calls.jsonrpc import Call, parse
from actors.upstream.replies import made
from ledger_gateway.receipts import digest_of


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
