"""Ways to send a request so that two servers may disagree about where it ends: one table, for every ring of tests.

A stream is what one attacker sends over one connection. KEY and ID stand for its API key and for an id that no other
request has; both have their true lengths, so the lengths in the heads are right. CUT is a pause.
"""

import json
from dataclasses import dataclass

KEY = b"K" * 53  # srpc_live_ and 43 characters.
ID = b"I" * 12
CUT = b"<pause>"


@dataclass(frozen=True, slots=True)
class Framing:
    name: str
    stream: bytes
    calls: int = 0  # How many calls of the attacker's it holds that may be answered with 200, and then are charged.
    refused: bool = False  # The only answer to it is 400.

    @property
    def is_http2(self) -> bool:
        return self.stream.startswith(b"PRI * HTTP/2.0")

    def pieces(self, key: bytes, request_id: bytes) -> list[bytes]:
        assert (len(key), len(request_id)) == (len(KEY), len(ID))
        return self.stream.replace(KEY, key).replace(ID, request_id).split(CUT)


def lines(*texts: bytes) -> bytes:
    return b"".join(text + b"\r\n" for text in texts)


def body(request_id: bytes = ID) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id.decode(), "method": "getSlot"}).encode()


def post(
    *headers: bytes, content: bytes | None = None, start: bytes = b"POST / HTTP/1.1", host: bytes = b"host: a\r\n"
) -> bytes:
    """headers: `%d` is the length of the content."""
    content = body() if content is None else content
    head = lines(start) + host + lines(*(header.replace(b"%d", b"%d" % len(content)) for header in headers))
    return head + b"\r\n" + content


WITH_KEY = b"x-api-key: " + KEY
LENGTH = b"content-length: %d"
CHUNKED = b"transfer-encoding: chunked"
UPGRADE = (b"connection: upgrade", b"upgrade: x")
WEBSOCKET = (
    *(b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-version: 13"),
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
)
H2C = (b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAARAAAAAAAIAAAAA")
GET = b"GET /pricing HTTP/1.1"
SLOW = b"GET /account/ledger HTTP/1.1"  # Its owner is asked.

CALL = post(WITH_KEY, LENGTH)
# What must never be read as a request: it is charged to the attacker, and its answer is somebody else's.
HIDDEN = post(WITH_KEY, LENGTH, content=body(b"hidden-" + ID[7:]))
# Whatever follows it on the connection would be its trailers: another client's credentials among them.
HIDDEN_OPEN = post(CHUNKED, content=b"%x\r\n%b\r\n0\r\nx: " % (len(body()), body()))


def chunks(content: bytes | None = None, size: bytes = b"%x", end: bytes = b"0\r\n", trailers: bytes = b"") -> bytes:
    content = body() if content is None else content
    return size % len(content) + b"\r\n" + content + b"\r\n" + end + trailers + b"\r\n"


def upgrades() -> list[Framing]:
    def row(name: str, stream: bytes, calls: int = 0, refused: bool = True) -> Framing:
        return Framing(f"upgrade: {name}", stream, calls, refused and not calls)

    def ended_at_head(*headers: bytes, start: bytes = b"POST / HTTP/1.1", hidden: bytes = HIDDEN) -> bytes:
        return post(*headers, start=start, content=hidden).replace(b"\r\n\r\n", b"\r\n\r\n" + CUT, 1)

    return [
        row("the body is a request", post(*UPGRADE, LENGTH, content=HIDDEN)),
        row("the body follows later", ended_at_head(*UPGRADE, LENGTH)),
        row("the next client's head would be trailers", ended_at_head(*UPGRADE, LENGTH, hidden=HIDDEN_OPEN)),
        row(
            "many requests follow while the first is answered",
            ended_at_head(WITH_KEY, *UPGRADE, LENGTH, start=SLOW, hidden=HIDDEN * 20),
        ),
        row(
            "the next client's head would be trailers, while the first is answered",
            ended_at_head(WITH_KEY, *UPGRADE, LENGTH, start=SLOW, hidden=HIDDEN_OPEN),
        ),
        row("among other words", ended_at_head(b"connection: keep-alive, Upgrade", b"upgrade: x", LENGTH)),
        row("in a second header", ended_at_head(b"connection: keep-alive", *UPGRADE, LENGTH)),
        row("with credentials", ended_at_head(WITH_KEY, *UPGRADE, LENGTH)),
        row("to TLS", ended_at_head(b"connection: upgrade", b"upgrade: TLS/1.0", LENGTH)),
        row("of a chunked body", post(*UPGRADE, CHUNKED, content=chunks(HIDDEN))),
        row("of a chunked body that follows later", ended_at_head(*UPGRADE, CHUNKED, hidden=chunks(HIDDEN))),
        row("GET with a body", ended_at_head(*UPGRADE, LENGTH, start=GET)),
        row("HEAD with a body", ended_at_head(*UPGRADE, LENGTH, start=GET.replace(b"GET", b"HEAD")), refused=False),
        row("without a body", post(*UPGRADE, start=GET, content=b"")),
        row("and a request behind it", post(*UPGRADE, start=GET, content=b"") + HIDDEN, calls=1),
        row("asked whether to go on", ended_at_head(*UPGRADE, b"expect: 100-continue", LENGTH)),
        row("WebSocket by POST", ended_at_head(*WEBSOCKET, LENGTH)),
        row("WebSocket with a body", ended_at_head(*WEBSOCKET, LENGTH, start=b"GET / HTTP/1.1")),
        row("WebSocket without credentials", post(*WEBSOCKET, start=b"GET /rpc HTTP/1.1", content=b""), refused=False),
        row(
            "WebSocket without credentials and a request behind it",
            post(*WEBSOCKET, start=b"GET / HTTP/1.1", content=b"") + HIDDEN,
            calls=1,
        ),
        row("WebSocket on a path without it", post(*WEBSOCKET, start=GET, content=b"") + HIDDEN, calls=1),
        row("h2c, which the front takes out", post(WITH_KEY, *H2C, LENGTH), calls=1),
        row("h2c without a body", post(*H2C, start=GET, content=b""), refused=False),
        row(
            "h2c and the connection of HTTP/2", post(*H2C, start=GET, content=b"PRI * HTTP/2.0\r\n\r\n"), refused=False
        ),
        row("CONNECT to an authority", post(start=b"CONNECT a:443 HTTP/1.1", content=HIDDEN), calls=1),
        row("CONNECT to a path", post(start=b"CONNECT / HTTP/1.1", content=b""), refused=False),
        row("CONNECT with a body", ended_at_head(LENGTH, start=b"CONNECT / HTTP/1.1"), refused=False),
    ]


def handshakes() -> list[Framing]:
    """Handshakes of WebSockets that two servers may read differently; all but one header of each would be accepted."""

    def row(name: str, *headers: bytes, host: bytes = b"host: a\r\n") -> Framing:
        stream = post(WITH_KEY, *WEBSOCKET, *headers, start=b"GET / HTTP/1.1", content=b"")
        return Framing(f"handshake: {name}", stream.replace(b"host: a\r\n", host), refused=True)

    return [
        row("two Upgrades", b"upgrade: websocket"),
        row("a length of zero", b"content-length: 0"),
        row("a length of 00", b"content-length: 00"),
        row("asked whether to go on", b"expect: 100-continue"),
        row("another expectation", b"expect: x"),
        row("two versions", b"sec-websocket-version: 13"),
        row("two keys", b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="),
        row("no host", host=b""),
        row("two hosts", b"host: b"),
    ]


def trailers() -> list[Framing]:
    def row(name: str, trailer: bytes, *headers: bytes, refused: bool = True) -> Framing:
        return Framing(f"trailers: {name}", post(*headers, CHUNKED, content=chunks(trailers=trailer)), refused=refused)

    return [
        row("a key and none in the head", WITH_KEY + b"\r\n"),
        row("a key, announced", WITH_KEY + b"\r\n", b"trailer: x-api-key"),
        row("a bearer token", b"authorization: Bearer " + b"0" * 64 + b"\r\n"),
        row("a wallet", b"x-pubkey: 1\r\nx-signature: 1\r\nx-timestamp: 1\r\nx-nonce: 1\r\n"),
        row("an address", b"x-forwarded-for: 203.0.113.9\r\n", WITH_KEY),
        row("a second key", b"x-api-key: another\r\n", WITH_KEY),
        row("a payment", b"payment-signature: e30=\r\n", WITH_KEY),
        row("a length", b"content-length: 0\r\n", WITH_KEY),
        row("a coding", CHUNKED + b"\r\n", WITH_KEY),
        row("an upgrade", lines(*UPGRADE), WITH_KEY),
        row("two", b"x: 1\r\ny: 2\r\n", WITH_KEY),
        row("folded", b"x: 1\r\n x-api-key: 2\r\n", WITH_KEY),
        row("long", b"x: " + b"a" * 9_000 + b"\r\n", WITH_KEY),
        row("100 kB", (b"x: " + b"a" * 1_000 + b"\r\n") * 100, WITH_KEY, refused=False),
        row("no header", b"abc\r\n", WITH_KEY),
        row("left open", b"x-api-key: ", WITH_KEY, refused=False),
        row("left open in the name", b"x-api", WITH_KEY, refused=False),
    ]


def lengths() -> list[Framing]:
    def row(name: str, *headers: bytes, content: bytes | None = None, calls: int = 1) -> Framing:
        return Framing(f"length: {name}", post(WITH_KEY, *headers, content=content), calls)

    both = chunks(body()) + HIDDEN
    return [
        row("coded, then counted", CHUNKED, b"content-length: %d" % len(chunks()), content=chunks()),
        row("counted, then coded", b"content-length: %d" % len(chunks()), CHUNKED, content=chunks()),
        row("counted over the end of the chunks", LENGTH, CHUNKED, content=both, calls=2),
        row("coded, and counted over the end", CHUNKED, LENGTH, content=both, calls=2),
        row("counted short of the chunks", CHUNKED, b"content-length: 4", content=chunks()),
        row("an unknown coding", b"transfer-encoding: xchunked", LENGTH),
        row("coded twice", CHUNKED, CHUNKED, content=chunks()),
        row("chunked in chunks", b"transfer-encoding: chunked, chunked", content=chunks()),
        row("chunked, then identity", CHUNKED, b"transfer-encoding: identity", content=chunks()),
        row("identity, then chunked", b"transfer-encoding: identity", CHUNKED, content=chunks()),
        row("compressed and chunked", b"transfer-encoding: gzip, chunked", content=chunks()),
        row("identity and counted", b"transfer-encoding: identity", LENGTH),
        row("a coding behind a tab", b"transfer-encoding:\x0bchunked", LENGTH),
        row("a coding in quotes", b'transfer-encoding: "chunked"', LENGTH),
        row("a folded coding", b"transfer-encoding:\r\n chunked", content=chunks()),
        row("a coding before a space", b"transfer-encoding : chunked", LENGTH),
        row("an empty coding", b"transfer-encoding:", LENGTH),
        row("no length", content=HIDDEN),
        row("twice the same", LENGTH, LENGTH),
        row("twice", LENGTH, b"content-length: 5"),
        row("a list", b"content-length: %d, %d"),
        row("with a sign", b"content-length: +%d"),
        row("below zero", b"content-length: -1"),
        row("in hexadecimal", b"content-length: 0x30"),
        row("beyond 64 bits", b"content-length: 18446744073709551617"),
        row("in two words", b"content-length: 4 8"),
        row("too short by a request", b"content-length: %d" % len(body()), content=body() + HIDDEN, calls=2),
        row("too long", b"content-length: 9999"),
    ]


def in_chunks() -> list[Framing]:
    def row(name: str, content: bytes, calls: int = 1) -> Framing:
        return Framing(f"chunks: {name}", post(WITH_KEY, CHUNKED, content=content), calls)

    return [
        row("in capitals, with leading zeros", chunks(size=b"000%X")),
        row("with an extension", chunks(size=b"%x;a=b")),
        row("with an extension in quotes", chunks(size=b'%x;a="b\r\nc"')),
        row("with a line feed in an extension", chunks(size=b"%x;a\n" + b"b")),
        row("with 20 kB of extensions", chunks(size=b"%x;" + b"a" * 20_000)),
        row("with a space behind the size", chunks(size=b"%x ")),
        row("with a sign", chunks(size=b"+%x")),
        row("with 0x", chunks(size=b"0x%x")),
        row("below zero", chunks(size=b"-%x")),
        row("beyond 64 bits", chunks(size=b"1000000000000000%x")),
        row("with bare line feeds", chunks().replace(b"\r\n", b"\n") + HIDDEN, calls=2),
        row("with bare carriage returns", chunks().replace(b"\r\n", b"\r")),
        row("with no line end behind the data", b"%x\r\n%b0\r\n\r\n" % (len(body()), body())),
        row("longer than said", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body()) - 4, body()) + HIDDEN),
        row("without the last", chunks(end=b"") + HIDDEN),
        row("with an empty line for the last", chunks(end=b"\r\n")),
        row("of one byte each", b"".join(b"1\r\n%c\r\n" % byte for byte in body()) + b"0\r\n\r\n"),
        row("and a request behind them", chunks() + HIDDEN, calls=2),
    ]


def heads() -> list[Framing]:
    def row(name: str, *headers: bytes, calls: int = 1, start: bytes = b"POST / HTTP/1.1") -> Framing:
        return Framing(f"head: {name}", post(WITH_KEY, *headers, LENGTH, start=start), calls)

    return [
        row("folded", b"x: 1\r\n 2"),
        row("folded into a key", b"x: 1\r\n x-api-key: 2"),
        Framing("head: folded at its beginning", lines(b"POST / HTTP/1.1", b" x: 1", WITH_KEY) + b"\r\n"),
        Framing("head: bare line feeds", CALL.replace(b"\r\n", b"\n"), 1),
        Framing("head: bare carriage returns", CALL.replace(b"\r\n", b"\r")),
        row("a bare line feed in a value", b"x: 1\ny: 2"),
        row("a bare carriage return in a value", b"x: 1\rcontent-length: 5"),
        row("a zero byte", b"x: \x00"),
        row("a byte above 127 in a name", b"x\xff: 1"),
        row("a space before a colon", b"content-length : 5"),
        row("no name", b": 1"),
        row("no colon", b"content-length"),
        row("100 kB in one header", b"x: " + b"a" * 100_000),
        row("100 kB in many headers", *(b"x-%d: " % number + b"a" * 990 for number in range(100))),
        row("5,000 small headers", *(b"x: 1" for _ in range(5_000))),
        row("the length names a header of the connection", b"connection: content-length"),
        row("the key names a header of the connection", b"connection: x-api-key"),
        row("asked whether to go on", b"expect: 100-continue"),
        row("an expectation of another kind", b"expect: something"),
        Framing(
            "head: asked whether to go on, and did not", post(WITH_KEY, LENGTH, b"expect: 100-continue")[: -len(body())]
        ),
        Framing(
            "head: asked whether to go on, and the body later",
            post(WITH_KEY, b"expect: 100-continue", LENGTH).replace(b"\r\n\r\n", b"\r\n\r\n" + CUT),
            1,
        ),
        Framing("head: two hosts", post(WITH_KEY, b"host: b", LENGTH), refused=True),
        row("two equal hosts, of which the front makes one", b"host: a"),
        Framing("head: two hosts under HTTP/1.0", post(WITH_KEY, b"host: b", LENGTH, start=b"POST / HTTP/1.0")),
        Framing("head: no host", CALL.replace(b"host: a\r\n", b""), refused=True),
        Framing("head: no host under HTTP/1.0", post(WITH_KEY, LENGTH, start=b"POST / HTTP/1.0", host=b""), 1),
        Framing("head: an empty host", CALL.replace(b"host: a", b"host:"), 1),
        Framing("head: a user in the host", CALL.replace(b"host: a", b"host: user@a"), 1),
        row("absolute form", start=b"POST http://a/ HTTP/1.1"),
        row("absolute form of another host", start=b"POST http://b/ HTTP/1.1"),
        row("absolute form with a user", start=b"POST http://user@a/ HTTP/1.1"),
        row("authority form", start=b"POST a:80 HTTP/1.1"),
        row("asterisk form", start=b"POST * HTTP/1.1"),
        row("a fragment in the target", start=b"POST /#x HTTP/1.1"),
        row("a space in the target", start=b"POST / x HTTP/1.1"),
        row("a byte above 127 in the target", start=b"POST /\xff HTTP/1.1"),
        row("HTTP/1.0", start=b"POST / HTTP/1.0"),
        row("HTTP/1.0 kept open", b"connection: keep-alive", start=b"POST / HTTP/1.0"),
        row("HTTP/1.2", start=b"POST / HTTP/1.2"),
        row("HTTP/2.0", start=b"POST / HTTP/2.0"),
        row("no version", start=b"POST /"),
        row("a method in small letters", start=b"post / HTTP/1.1"),
        Framing("head: chunks under HTTP/1.0", post(WITH_KEY, CHUNKED, content=chunks(), start=b"POST / HTTP/1.0"), 1),
        Framing("head: TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)),
        Framing("head: a proxy's line", b"PROXY TCP4 203.0.113.9 127.0.0.1 1 2\r\n" + CALL),
    ]


def sequences() -> list[Framing]:
    slow_head = CUT.join(CALL[at : at + 60] for at in range(0, len(CALL), 60))
    closing = post(WITH_KEY, LENGTH, b"connection: close")
    return [
        Framing("sequence: two requests at once", CALL + HIDDEN, 2),
        Framing("sequence: behind a request that closes", closing + HIDDEN, 1),
        Framing("sequence: later behind a request that closes", closing + CUT + HIDDEN, 1),
        Framing("sequence: behind HTTP/1.0", post(WITH_KEY, LENGTH, start=b"POST / HTTP/1.0") + HIDDEN, 1),
        Framing("sequence: behind GET with a body", post(LENGTH, start=GET, content=HIDDEN) + HIDDEN, 1),
        Framing("sequence: behind GET with chunks", post(CHUNKED, start=GET, content=chunks(HIDDEN)) + HIDDEN, 1),
        Framing("sequence: behind a refused path", post(LENGTH, start=b"POST /nowhere HTTP/1.1", content=HIDDEN)),
        Framing("sequence: behind a body that is too long", post(WITH_KEY, LENGTH, content=b" " * 300_000) + HIDDEN, 1),
        Framing(
            "sequence: behind chunks that are too long",
            post(WITH_KEY, CHUNKED, content=chunks(b" " * 300_000)) + HIDDEN,
            1,
        ),
        Framing("sequence: rubbish behind a request", CALL + b"\x00\x01\x02\r\n\r\n" + HIDDEN, 1),
        Framing("sequence: empty lines before a request", b"\r\n\r\n\r\n" + CALL, 1),
        Framing("sequence: half a head", CALL[:60]),
        Framing("sequence: half a body", CALL[:-10]),
        Framing("sequence: a head in many pieces", slow_head, 1),
        Framing(
            "sequence: a body in many pieces",
            CALL[: -len(body())] + CUT.join(bytes([b]) for b in body()[:20]) + CUT + body()[20:],
            1,
        ),
    ]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def fields(*pairs: tuple[bytes, bytes]) -> bytes:
    """A header block of HTTP/2: literals, never indexed, not compressed."""
    return b"".join(b"\x10" + _text(name) + _text(value) for name, value in pairs)


def _text(text: bytes) -> bytes:
    assert len(text) < 127 + 128, text
    return (bytes((len(text),)) if len(text) < 127 else bytes((127, len(text) - 127))) + text


def http2() -> list[Framing]:
    """The front speaks HTTP/2 with clients who begin with it, and HTTP/1.1 with replicas."""
    begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    key = (b"x-api-key", KEY)

    def row(
        name: str,
        *pairs: tuple[bytes, bytes],
        calls: int = 1,
        content: bytes | None = None,
        end: tuple[tuple[bytes, bytes], ...] = (),
        start: tuple[bytes, bytes] = (b"POST", b"/"),
    ) -> Framing:
        content = body() if content is None else content
        head = fields(
            (b":method", start[0]), (b":scheme", b"http"), (b":path", start[1]), (b":authority", b"a"), *pairs
        )
        sent = frame(1, 4, 1, head) + frame(0, 0 if end else 1, 1, content)
        return Framing(f"HTTP/2: {name}", begin + sent + (frame(1, 5, 1, fields(*end)) if end else b""), calls)

    upgrade = ((b"connection", b"upgrade"), (b"upgrade", b"x"))
    return [
        row("a call", key),
        row("trailers with a key", end=(key,), calls=0),
        row("trailers with an address", key, end=((b"x-forwarded-for", b"203.0.113.9"),), calls=0),
        row("an upgrade", key, *upgrade, content=HIDDEN),
        row("an extended CONNECT", (b":protocol", b"websocket"), start=(b"CONNECT", b"/"), content=HIDDEN, calls=0),
        row("CONNECT", start=(b"CONNECT", b"/"), content=HIDDEN, calls=0),
        row("a coding", key, (b"transfer-encoding", b"chunked"), content=chunks(HIDDEN)),
        row("a length that is too short", key, (b"content-length", b"5"), content=body() + HIDDEN),
        row("a length that is too long", key, (b"content-length", b"500")),
        row("a line end in a value", (b"x", b"1\r\ncontent-length: 0\r\n\r\n" + HIDDEN[:60]), calls=0),
        row("a line end in a name", (b"x: 1\r\ny", b"1"), key),
        row("a line end in the path", start=(b"POST", b"/ HTTP/1.1\r\nx: 1"), calls=0),
        row("a line end in the method", start=(b"POST / HTTP/1.1\r\nx: 1\r\n\r\nGET", b"/"), calls=0),
        row("a space in the path", key, start=(b"POST", b"/ HTTP/1.1")),
        row("a second host", key, (b"host", b"b")),
        row("a name in capitals", (b"X-Api-Key", KEY), calls=0),
    ]


FRAMINGS = (*upgrades(), *handshakes(), *trailers(), *lengths(), *in_chunks(), *heads(), *sequences(), *http2())
