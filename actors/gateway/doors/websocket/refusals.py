"""Refuses a WebSocket by a close code: the handshake is accepted, and the socket is closed with the reason.

Implements: decisions, "WebSocket refusals"; interface, "WebSocket close codes". Pure, but for the handler that closes.
A browser sees nothing of the HTTP status of a refused handshake: it reports 1006, which by the interface means that the
network has lost the socket and that the client is to connect again. So a refusal that connecting again does not mend
gets a close code of the interface. All other refusals (a bad handshake, a flood, a service that is full or not ready)
keep their HTTP status; a browser that then sees 1006 and connects again does right.
"""

from actors.errors import Err, Refusal
from actors.http_server.websocket import WebSocket

POLICY, AUTH_FAILED, OUT_OF_CREDITS = 1008, 4001, 4002
REASON_BYTES_MAX = 123  # RFC 6455: a control frame holds 125 bytes, and the code takes two.
_NO_CREDENTIAL = "insufficient_credits: no credential was sent; send X-Api-Key, or subprotocols solana-rpc, auth.<key>"
_NO_ACCOUNT = "insufficient_credits: this wallet has no account; deposit USDC from it, then connect again"
_LOW = "insufficient_credits: deposit USDC, then connect again"


def close_of(refusal: Refusal, is_token: bool, has_credential: bool) -> tuple[int, str] | None:
    """The close code and the reason for a handshake that is refused in this way; None: it is refused with HTTP.

    is_token: the credential that was refused is a session token.
    """
    match refusal.err:
        case Err.AUTH_FAILED if is_token:
            code, reason = POLICY, f"policy_violation: {refusal.detail or 'the session is not valid'}; sign in again"
        case Err.AUTH_FAILED:
            code, reason = AUTH_FAILED, f"auth_failed: {refusal.detail or 'the API key is not valid; make a new one'}"
        case Err.NONCE_REUSED:
            code, reason = AUTH_FAILED, f"auth_failed: {refusal.message}; {refusal.err.row.hint}"
        case Err.PAYMENT_REQUIRED:  # The interface has 402 for both.
            code, reason = OUT_OF_CREDITS, _NO_ACCOUNT if has_credential else _NO_CREDENTIAL
        case Err.INSUFFICIENT_CREDITS:
            code, reason = OUT_OF_CREDITS, f"{_LOW}; {refusal.detail}" if refusal.detail else _LOW
        case Err.KEY_BUDGET_EXCEEDED:
            code, reason = OUT_OF_CREDITS, f"key_budget_exceeded: {refusal.message}"
        case Err.HOURLY_LIMIT_EXCEEDED:
            code, reason = OUT_OF_CREDITS, f"hourly_limit_exceeded: {refusal.message}"
        case Err.METHOD_NOT_ALLOWED:
            code, reason = POLICY, f"policy_violation: {refusal.detail or refusal.message}"
        case _:
            return None
    return code, reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")


class RefusedSocket:
    """A SocketHandler that closes its connection at once."""

    def __init__(self, code: int, reason: str) -> None:
        self._code, self._reason = code, reason

    def opened(self, socket: WebSocket) -> None:
        socket.close(self._code, self._reason)

    def message(self, text: bytes) -> None: ...

    @property
    def is_busy(self) -> bool:
        return False

    def writable(self) -> None: ...

    def closed(self) -> None: ...
