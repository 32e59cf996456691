from typing import Any

import pytest

from devnode.rpc.asgi import Reply, send_reply


async def sent(reply: Reply, cors: bool) -> list[dict[str, Any]]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    await send_reply(send, reply, cors)
    return messages


@pytest.mark.parametrize("cors", [True, False])
async def test_a_reply_is_sent_with_its_headers(cors: bool) -> None:
    """Only a reply with `cors` allows browsers of any origin to read it."""
    start, body = await sent(Reply(429, b"{}", headers=((b"retry-after", b"3"),)), cors)
    assert start["status"] == 429 and body == {"type": "http.response.body", "body": b"{}"}
    headers = dict(start["headers"])
    assert headers[b"content-length"] == b"2" and headers[b"retry-after"] == b"3"
    assert (b"access-control-allow-origin" in headers) is cors


async def test_a_preflight_reply_lists_the_allowed_methods() -> None:
    start, _ = await sent(Reply(204, b"", b"text/plain"), True)
    assert dict(start["headers"])[b"access-control-allow-methods"] == b"POST, GET, OPTIONS"
