"""Lets operators through to /operator/*, and nobody else.

Implements: decisions, "The operators' page"; threat 35 (guesses are counted by address). A shell: it counts in the
shared store. What a token is: identity/operator_token.py.
"""

from ipaddress import ip_network

from actors.errors import Err, Refusal
from actors.gateway.calls.address_limits import AddressLimits
from actors.gateway.calls.requests import Request
from actors.identity.operator_token import OperatorToken, is_among
from actors.operator_config import OperatorConfig

PAGE, PATHS = b"/operator", b"/operator/"
_NO_TOKEN = Refusal(
    Err.METHOD_NOT_ALLOWED,
    "this service has no operator's token: set operator.token (LEDGER_OPERATOR__TOKEN); "
    "`ledger-gateway operator token --new` makes one",
)
_ELSEWHERE = Refusal(Err.METHOD_NOT_ALLOWED, "operator.addresses does not have the address that this request came from")
_WRONG = Refusal(Err.AUTH_FAILED, "the header X-Operator-Token does not have the operator's token, once")


class OperatorGuard:
    def __init__(self, config: OperatorConfig, addresses: AddressLimits) -> None:
        self._token = OperatorToken(None if config.token is None else config.token.get_secret_value())
        self._networks = [ip_network(text, strict=False) for text in config.addresses]
        self._addresses = addresses

    async def refusal(self, request: Request) -> Refusal | None:
        """Return why this request is not an operator's, or None.

        Wrong tokens count against their address; the right one never waits for the limit, so that nobody can lock an
        operator out."""
        if not self._token.is_set:
            return _NO_TOKEN
        if self._networks and not is_among(self._addresses.whole_name_of(request.client), self._networks):
            return _ELSEWHERE
        if self._token.is_in(request.headers):
            return None
        return await self._addresses.refusal(request) or _WRONG


def is_operators(path: bytes) -> bool:
    """Return whether this path is for operators; it is never answered to a page of another origin."""
    return path.startswith(PAGE) and (len(path) == len(PAGE) or path.startswith(PATHS))
