"""The receiver of README.md, as it stands there. test_actor.py gives it real deliveries."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.webhooks.signing import delivery_headers, new_secret

README = Path(__file__).parents[2] / "actors" / "webhooks" / "README.md"
LINES_MAX = 10


def receiver_code(secret: str, now: float | None = None) -> Callable[..., bool]:
    """Run the page's code, and return its function. now: the receiver's time."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= LINES_MAX
    found: dict[str, Any] = {"SECRET": secret}
    exec(code, found)
    if now is not None:
        found["time"] = type("Time", (), {"time": staticmethod(lambda: now)})
    is_ours: Callable[..., bool] = found["is_ours"]
    return is_ours


def test_the_receiver_of_the_page_takes_our_deliveries_and_no_others() -> None:
    """Ten lines, by the interface's own header; also after rotations."""
    secret, newer, newest = (new_secret(letter * 32) for letter in (b"a", b"b", b"c"))
    is_ours, now, body = receiver_code(secret), int(time.time()), b'{"event":"transaction"}'
    sent = delivery_headers([secret], "wh_1", "evt_wh_1_1", now, body)
    assert is_ours(sent, body)
    assert is_ours(delivery_headers([newer, secret], "wh_1", "evt_wh_1_1", now, body), body)
    assert is_ours(delivery_headers([newest, newer, secret], "wh_1", "evt_wh_1_1", now, body), body)
    assert not is_ours(sent, body + b" ")
    assert not is_ours(delivery_headers([newer], "wh_1", "evt_wh_1_1", now, body), body)
    assert not is_ours(delivery_headers([secret], "wh_1", "evt_wh_1_1", now - 3_600, body), body)
    assert not is_ours(sent | {"X-Webhook-Event-Id": "evt_wh_1_2"}, body)
