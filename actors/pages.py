"""The nouns of a page: one HTTP path that a context serves, and for which the gateway authenticates, limits and answers
requests.

Implements: interface, "Endpoints" (paths beside JSON-RPC, /account/*, /auth/* and the public pages).
Pure vocabulary. A context that serves pages makes a list of `Page`; `launch` hands it to the gateway's door
(`Dependencies.pages`), which finds the page of a path, authenticates, and turns a `PageAnswer` into HTTP.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from actors.calls import Proof, ProvenProof
from actors.errors import Refusal

JSON = "application/json"
METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE"))
_SEGMENT = re.compile(r"[A-Za-z0-9._~-]+|\{[a-z_]+\}")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request of a page. pubkey: 32 bytes, proven by the account's owner; None on a public page.

    parameters: the segments of the path that the pattern names. query: without the API key; a parameter that comes
    twice was refused. headers: names in lower case, without credentials. body: empty for GET and HEAD. proof: for
    answers that go on, which must end when their credential does; a wallet's signature is the account that it proved.
    is_head: only the head of the answer will be sent.
    """

    pubkey: bytes | None
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    proof: Proof | None = None
    is_head: bool = False
    payer_key: int = 0  # Number of the named key that was presented, which pays; 0: none was.
    price_list: str = ""  # Name of the account's price list; empty: the public prices.

    @property
    def payer(self) -> ProvenProof:
        return ProvenProof(self.account, self.payer_key)

    @property
    def account(self) -> bytes:
        """The public key on a page that is not public."""
        assert self.pubkey is not None, "a public page has no account"
        return self.pubkey


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An answer that is no refusal. headers: beside the content's type and length; names in lower case.

    body: bytes, or an async generator of them, which the gateway sends as fast as the client takes it, and closes when
    the client leaves. A generator must give something at least every 25 seconds: the front cuts connections that are
    silent for 60. With a status of 400 or more the content is JSON: the front replaces other error pages by its own.
    """

    body: bytes | AsyncGenerator[bytes, None]
    status: int = 200
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        assert 200 <= self.status < 400 or self.content_type == JSON, self.status


Handler: TypeAlias = Callable[[PageRequest], Awaitable[PageAnswer | Refusal]]


@dataclass(frozen=True, slots=True)
class Page:
    """One method of one path. path: as "/webhooks/{id}/test"; a name in braces stands for one segment.

    is_public: takes no credentials, and its answers carry neither credit nor rate headers nor X-Request-Id.
    is_limited: its requests count against the limit of their client's address, as those of /account/* do.
    minute_max: for a public page, how many requests of one address each replica answers in a minute; counted in its
    memory, without a look at the shared store. None: there is no limit.
    for_keys: named keys may ask it, whatever they may read: it is no page about their account.
    only_wallet: it takes no credential but a wallet's signature.
    for_operators: it takes the operator's token and nothing else; documents for customers do not name it.
    """

    method: str
    path: str
    handler: Handler
    is_public: bool = False
    is_limited: bool = True
    minute_max: int | None = None
    for_keys: bool = False
    only_wallet: bool = False
    for_operators: bool = False

    def __post_init__(self) -> None:
        assert self.method in METHODS, self.method
        assert self.path.startswith("/") and all(map(_SEGMENT.fullmatch, self.path[1:].split("/"))), self.path

    @property
    def endpoint(self) -> str:
        """Return the endpoint as GET /capabilities lists it."""
        return f"{self.method} {self.path}"


def json_answer(body: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> PageAnswer:
    """Return the answer with this value as its JSON body."""
    return PageAnswer(orjson.dumps(body), status, JSON, headers)
