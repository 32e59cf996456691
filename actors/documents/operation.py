"""One method of one path, as documents describe it, and the credentials that it takes.

Pure vocabulary. The rows are in operations.py, event_operations.py and key_operations.py.
"""

from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

from actors.documents.schemas import Schema

_YEAR, _MONTH, _DAY = "(19[7-9][0-9]|2[01][0-9]{2})", "(0[1-9]|1[0-2])", "(0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
TIME: Schema = {
    "type": "string",
    "pattern": rf"^([0-9]{{1,12}}|{_YEAR}-{_MONTH}-{_DAY}({_CLOCK})?(Z|\+00:00)?)$",
    "description": "ISO 8601 in UTC, or Unix seconds; from is not after to",
}


@unique
class Access(Enum):
    """The credentials that a path takes."""

    PUBLIC = "no credential"
    ACCOUNT = "any credential"
    WALLET = "a wallet's signature"
    SESSION = "a session token"
    OPTIONAL = "no credential, or any"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    endpoint: as GET /capabilities lists it. price: in words; empty: free. answer: of success; successes, refusals: its
    statuses, beside those that every path of this access has. other_types: of content, which some answers have instead.
    is_call: it takes X-Max-Credits and tells its cost. has_limit: it takes X-Max-Credits alone. has_key: it takes an
    Idempotency-Key. is_limited: by the number of requests of its client's address. example: a body that is taken; None:
    there is none to show.
    """

    endpoint: str
    tag: str
    summary: str
    answer: Schema
    access: Access = Access.PUBLIC
    price: str = ""
    request: Schema | None = None
    needs_body: bool = True
    query: tuple[tuple[str, Schema], ...] = ()
    successes: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    content_type: str = "application/json"
    other_types: tuple[str, ...] = ()
    is_call: bool = False
    has_limit: bool = False
    has_key: bool = False
    is_limited: bool = False
    example: Any = None

    @property
    def method(self) -> str:
        return self.endpoint.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.endpoint.partition(" ")[2]
