"""Guards that replicas find one racer, of these settings."""

from typing import Any

from actors.config import Config
from actors.launch.assembly.sending import assemble_sends, open_nodes, open_settling


class Anything:
    single_nodes = ()


async def test_the_racer_follows_its_settings() -> None:
    """Rule: it is placed with the settings of this replica, of which it gets those that it uses."""
    placed: list[Any] = []

    def place(*arguments: Any) -> Any:
        placed.append(arguments)

    anything: Any = Anything()
    client, methods = await assemble_sends(Config(), anything, None, place=place)
    await client.stop()
    assert placed == [(Config(), open_settling, open_nodes)]
    assert set(methods.caller_handlers()) | set(methods.handlers()) == {
        *("sendAndConfirm", "getSendStatus", "sendSmartTransaction", "sendTransaction"),
    }
