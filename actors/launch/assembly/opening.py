"""Opens a replica: what travels to it in the deployment is this function, and its parts are imported there.

Wiring. The process that deploys needs none of the parts, which take 0.7 s of a processor to import.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from actors.config import Config


async def assembled(config: Config) -> tuple[Any, Callable[[], Awaitable[None]]]:
    """Do as replica.assemble."""
    from actors.launch.assembly.replica import assemble

    return await assemble(config)
