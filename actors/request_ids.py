"""The request that this code works for: its X-Request-Id, which every log line of its work carries.

Implements: actors/launch/README.md, "Logs". A context variable: tasks that a request starts inherit it, also
those that go on when the client has left, and nothing passes it on by hand. Work that is shared keeps the id of the
request that began it. Pure vocabulary, but for the variable itself.
"""

from contextvars import ContextVar
from typing import Final

# Empty: the code works for no request, or for several.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id", default="")

work_for = REQUEST_ID.set  # Call it in a separate task of the request: it names everything that follows there.
current = REQUEST_ID.get
