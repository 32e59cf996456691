import pytest

from actors.http_server import websocket


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a close frame the server reads on for 2 s, which most tests of a closed connection would wait for. Here
    nothing is more than a moment away."""
    monkeypatch.setattr(websocket, "LINGER_SECONDS", 0.3)
