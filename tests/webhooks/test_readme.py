"""The receiver of README.md, as it stands there."""

import re
import time
from pathlib import Path
from typing import Any

from actors.webhooks.signing import delivery_headers, new_secret

README = Path(__file__).parents[2] / "actors" / "webhooks" / "README.md"


def test_the_receiver_of_the_page_takes_our_deliveries_and_no_others() -> None:
    """Ten lines, by the interface's own header; also during a rotation."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    secret, newer = new_secret(b"a" * 32), new_secret(b"b" * 32)
    found: dict[str, Any] = {"SECRET": secret}
    exec(code, found)
    is_ours, now, body = found["is_ours"], int(time.time()), b'{"event":"transaction"}'
    sent = delivery_headers(secret, None, "wh_1", "evt_wh_1_1", now, body)
    assert is_ours(sent, body)
    assert is_ours(delivery_headers(newer, secret, "wh_1", "evt_wh_1_1", now, body), body)
    assert not is_ours(sent, body + b" ")
    assert not is_ours(delivery_headers(newer, None, "wh_1", "evt_wh_1_1", now, body), body)
    assert not is_ours(delivery_headers(secret, None, "wh_1", "evt_wh_1_1", now - 3_600, body), body)
    assert not is_ours(sent | {"X-Webhook-Event-Id": "evt_wh_1_2"}, body)
