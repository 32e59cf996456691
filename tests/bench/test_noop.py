"""The empty application that the host's own no-op serves."""

from typing import Any

from bench.noop import empty


async def test_the_body_is_read_whole_and_answered_with_one_constant() -> None:
    """The no-op takes the same request as the gateway and answers bytes of the same size, and does nothing else."""
    asked = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.request", "body": b"}"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return asked.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await empty({"type": "http"}, receive, send)
    assert asked == []
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    length = dict(sent[0]["headers"])[b"content-length"]
    assert int(length) == len(sent[1]["body"])
