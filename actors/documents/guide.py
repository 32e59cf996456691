"""The chapters that come before the lists: how to open an account and pay, how reads keep their order, and how to use
the streams.

Implements: interface, "Per-request wallet signature", "WebSocket /ws", "gRPC streaming" and "Signal
billing".
Pure: made from the offer, so that a price or a limit is named as it is here. The reference page and llms.txt show the
same chapters. Code in a text stands between backticks, as in Markdown.
"""

from dataclasses import dataclass

from actors.documents.offer import Offer
from actors.methods import context_slots
from actors.methods.context_slots import CONSISTENCIES
from actors.methods.prices import STREAMS

SIGNED_MESSAGE = "ledger-svc:v2:{METHOD}:{PATH}:{TIMESTAMP}:{NONCE}:{BODY_HASH}"
_KEY_EXAMPLE = """\
import hashlib, secrets, time
import base58, httpx
from nacl.signing import SigningKey  # pip install base58 httpx pynacl

signer = SigningKey(base58.b58decode("<secret key of the wallet, base58>")[:32])
pubkey = base58.b58encode(signer.verify_key.encode()).decode()
path, body = "/account/api-key", b"{}"
timestamp, nonce = str(int(time.time())), secrets.token_urlsafe(16)
message = f"ledger-svc:v2:POST:{path}:{timestamp}:{nonce}:{hashlib.sha256(body).hexdigest()}"
signature = base58.b58encode(signer.sign(message.encode()).signature).decode()
headers = {"X-Pubkey": pubkey, "X-Signature": signature, "X-Timestamp": timestamp, "X-Nonce": nonce}
print(httpx.post("%s" + path, content=body, headers=headers).json()["api_key"])"""
_SOCKET_EXAMPLE = """\
// A browser can set no header: the key is a subprotocol beside solana-rpc.
const socket = new WebSocket("%s", ["solana-rpc", "auth." + apiKey]);
socket.onopen = () => socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}');
socket.onmessage = (message) => console.log(message.data);
socket.onclose = (end) => console.log(end.code, end.reason);"""
# Codes of the interface ("HTTP statuses and bodies"), and those of RFC 6455 that a client meets.
CLOSE_CODES = (
    ("1000", "the client ended it"),
    ("1006", "the network lost it: connect again, subscribe again"),
    ("1008", "the session token is invalid or has ended, or the account is suspended: sign in again"),
    ("1009", "a message was too long"),
    ("1011", "no pong for two pings, which come every 25 s; or an internal error"),
    ("1012", "the service restarts: connect again, subscribe again; signals go on after `since`"),
    ("1013", "the client reads too slowly: try again later"),
    ("4001", "the API key or the signature is not valid, or the key was replaced: send a valid one"),
    ("4002", "the balance is below 10 credits, there is no account, or no credential was sent: deposit, connect again"),
    ("4003", "too many messages, or too many refused calls, in a second"),
)


@dataclass(frozen=True, slots=True)
class Chapter:
    """points: sentences. example: code. tables: of each, the heads of its columns and its rows."""

    name: str
    title: str
    points: tuple[str, ...]
    example: str = ""
    tables: tuple[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], ...] = ()


def chapters(offer: Offer) -> list[Chapter]:
    """Return the chapters; leaves out those that are not offered here."""
    found = [_account(offer), _consistency()]
    if offer.streams.subscriptions:
        found.append(_websocket(offer))
    if offer.streams.grpc_target:
        found.append(_grpc(offer))
    return found


def websocket_url(offer: Offer) -> str:
    return "ws" + offer.public_url.removeprefix("http") + "/ws"


def _account(offer: Offer) -> Chapter:
    return Chapter(
        "account",
        "An account, a key, credits",
        (
            "A wallet is the account: there is no sign-up. `POST /account/api-key`, signed by the wallet, opens it and "
            'answers `{"ok": true, "api_key": "srpc_live_…", "message": "…"}`. The key is shown once; asking again '
            "replaces it.",
            f"The wallet signs the UTF-8 text `{SIGNED_MESSAGE}` with Ed25519. METHOD and PATH are the request's, "
            "PATH without its query. TIMESTAMP is Unix seconds, within 60 s of now. NONCE has 1 to 128 letters, digits "
            "or `-_:.,` and is good for one request. BODY_HASH is the SHA-256 of the body in lower-case hex; of a GET "
            "it is empty.",
            "Four headers carry it: `X-Pubkey` (base58), `X-Signature` (base58), `X-Timestamp` and `X-Nonce`. They "
            "name the account on every other path too, without a key.",
            offer.deposit["instructions"],
            "`GET /account/info` shows the balance, and `POST /account/confirm-deposit` with the transfer's signature "
            "tells when it was credited.",
            "Without an account: where `GET /.well-known/x402.json` says `enabled`, a client of x402 pays when it "
            "meets a 402, and has its answer in the same request.",
        ),
        _KEY_EXAMPLE % offer.public_url,
    )


def _consistency() -> Chapter:
    """Describe for each method what a monotonic read promises."""
    any_word, monotonic = CONSISTENCIES
    rows = [(kind.value, ", ".join(f"`{name}`" for name in names)) for kind, names in context_slots.table() if names]
    return Chapter(
        "consistency",
        "Reads that never step back",
        (
            f"Several nodes answer here, some slots behind others. With `X-Consistency: {monotonic}` no answer is "
            "older than the monotonic reads of the same account that were answered before it, at any door and with "
            "any of its keys; each commitment has a floor of its own. A transaction that `sendAndConfirm` told as "
            "landed, or a monotonic `getSignatureStatuses` as confirmed, is seen by the monotonic reads after it, at "
            f"`processed` and `confirmed`. `{any_word}`, the default, promises neither, and raises no floor.",
            "The price is the same. Where no node has reached the floor within two seconds, the call is refused with "
            f"SERVICE_TEMPORARILY_UNAVAILABLE, free: ask again, or with `{any_word}`. Another word is 400, free. Your "
            "own `minContextSlot` is kept; the larger one counts.",
            "The header is taken by calls, batches and bulk lists, by the handshake of a WebSocket for all its calls, "
            'and by `POST /mcp`, where `_meta["ledger-gateway/consistency"]` says it for one call. The calls of one '
            "batch run at the same time and are not compared with each other. Notifications of subscriptions neither "
            "heed a floor nor raise it, and gRPC has no monotonic reads. The paths under `/relay/` refuse it, free.",
            "Balances of `/bulk/getBalances` name their `slot`; where they are of several slots it is null, and "
            "`slots` has the lowest and the highest. A monotonic list is asked again until all are of one slot, three "
            "times at most.",
        ),
        tables=((("What is kept", "Methods"), tuple(rows)),),
    )


def _websocket(offer: Offer) -> Chapter:
    streams, native, signals = offer.streams, STREAMS["websocket"], STREAMS["signals"]
    return Chapter(
        "websocket",
        "WebSocket",
        (
            f"Connect to `{websocket_url(offer)}`. It takes every JSON-RPC method at its usual price, and the "
            "subscriptions below.",
            "The key is sent as the header `X-Api-Key`, or as the subprotocol pair `solana-rpc`, `auth.<key>`, or as "
            "`?api-key=` in the URL. A session token is sent as `Authorization: Bearer`. Both need a balance of 10 "
            "credits.",
            "A handshake that is refused for its credential or its account is accepted, and closed at once with the "
            "code below: a browser sees no HTTP status. A handshake that is no WebSocket gets HTTP 400, one of too "
            "many in a second 429, and 503 says that the service is full or not ready.",
            f"A subscription costs {native['connect_credits']} credits, and {native['notifications_per_credit']} "
            f"notifications cost 1; signals cost {signals['connect_credits']}, and {signals['event_credits']} for each "
            "signal. To unsubscribe is free, and so is a subscription that is refused.",
            f"At most {streams.subscriptions_max} subscriptions of a socket, {streams.frames_per_second_max} messages "
            f"in a second, {streams.message_bytes_max // 1024} KiB a message. A ping comes every 25 s.",
            "When events were lost, a `gapNotification` tells it, free: `{subscription, result: {from_slot, to_slot, "
            "reason}}`.",
        ),
        _SOCKET_EXAMPLE % websocket_url(offer),
        (
            (
                ("Subscribe, unsubscribe", "Parameters", "Delivers"),
                tuple(
                    (f"`{row.name}`, `{row.unsubscribe}`", f"`{row.params}`", row.delivers)
                    for row in streams.subscriptions
                ),
            ),
            (("Close code", "When"), tuple((f"`{code}`", when) for code, when in CLOSE_CODES)),
        ),
    )


def _grpc(offer: Offer) -> Chapter:
    streams, prices = offer.streams, STREAMS["grpc"]
    transport = "over TLS" if streams.grpc_is_tls else "in plaintext"
    return Chapter(
        "grpc",
        "gRPC",
        (
            f"`geyser.Geyser` (Yellowstone) is at `{streams.grpc_target}`, {transport}. Every Yellowstone client "
            "works, with filters of accounts, transactions, slots, blocks and entries, and with `from_slot` for past "
            "slots.",
            "The metadata `x-token` is an API key or a session token.",
            f"A stream costs {prices['request_credits']} credit when its first request is accepted, and "
            f"{prices['interval_credits']} when each further {prices['interval_seconds']} seconds begin. A unary call "
            f"that is answered costs {prices['request_credits']}, a request with `from_slot` that replaces the filters "
            f"of an open stream {prices['replay_request_credits']}. The seconds since the last payment of a stream "
            "that has ended count on for the account's next stream, for "
            f"{prices['unpaid_seconds_kept'] // 60} minutes.",
            "A stream that ends with CANCELLED or UNAVAILABLE is opened again with `from_slot`; with "
            "RESOURCE_EXHAUSTED the text names what is used up.",
        ),
    )
