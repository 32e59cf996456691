"""What the session paths take and give. Interface, "Session endpoints"."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.identity import endpoints
from actors.identity.challenge import check_challenge, new_challenge

from .wallets import NOW, wallet

SECRET, ORIGIN = b"secret", "https://rpc.example.com:8443"
PUBKEY_TEXT = wallet().pubkey_text


def verify_body(**changes: object) -> bytes:
    challenge = new_challenge(SECRET, wallet().pubkey, NOW, b"rand")
    fields = {"pubkey": PUBKEY_TEXT, "challenge": challenge, "signature": wallet().sign_text(challenge)}
    return orjson.dumps(fields | changes)


def assert_refused(result: object, err: Err, word: str = "") -> None:
    assert isinstance(result, Refusal)
    assert result.err is err
    assert result.detail
    assert word in result.detail


def test_a_challenge_request() -> None:
    """Only the public key counts; fields this version does not know are no reason to refuse."""
    body = orjson.dumps({"pubkey": PUBKEY_TEXT, "more": [1]})
    assert endpoints.parse_challenge_request(body) == endpoints.ChallengeRequest(wallet().pubkey, False)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"\xff", "JSON"),
        (b'{"pubkey": "\\ud800"}', "JSON"),
        (b"[" * 2_000, "JSON"),
        (b"[]", "object"),
        (b"null", "object"),
        (b"{}", "pubkey is missing"),
        (b'{"pubkey": 1}', "pubkey: wanted a string"),
        (b'{"pubkey": null}', "pubkey: wanted a string"),
        (b" " * 5_000, "4096"),
    ],
)
def test_bodies_of_another_shape_are_invalid_requests(body: bytes, word: str) -> None:
    assert_refused(endpoints.parse_challenge_request(body), Err.INVALID_REQUEST, word)
    assert_refused(endpoints.parse_verify_request(body), Err.INVALID_REQUEST, word)


@pytest.mark.parametrize("text", ["", "abc", "0" * 44, PUBKEY_TEXT + "1", "é" * 40, "1" * 31, "z" * 3_000])
def test_a_malformed_public_key_is_an_authentication_failure(text: str) -> None:
    """Interface, HTTP statuses: 401 for a malformed public key."""
    assert_refused(endpoints.parse_challenge_request(orjson.dumps({"pubkey": text})), Err.AUTH_FAILED, "pubkey")
    assert_refused(endpoints.parse_verify_request(verify_body(pubkey=text)), Err.AUTH_FAILED, "pubkey")


@given(body=st.binary(max_size=200))
def test_any_bytes_are_judged_without_an_exception(body: bytes) -> None:
    for parse in (endpoints.parse_challenge_request, endpoints.parse_verify_request):
        assert isinstance(parse(body), Refusal)
    endpoints.parse_logout_request(body)


def test_a_verified_request_gives_the_challenge_to_burn() -> None:
    request = endpoints.parse_verify_request(verify_body())
    assert isinstance(request, endpoints.VerifyRequest)
    challenge_id = endpoints.check_verify_request(request, SECRET, NOW, 300, ORIGIN)
    assert challenge_id == check_challenge(SECRET, request.challenge, wallet().pubkey, NOW, 300)


def test_a_dead_foreign_or_unsigned_challenge_is_refused() -> None:
    def result(now: int = NOW, **changes: object) -> object:
        request = endpoints.parse_verify_request(verify_body(**changes))
        assert isinstance(request, endpoints.VerifyRequest)
        return endpoints.check_verify_request(request, SECRET, now, 300, ORIGIN)

    assert_refused(result(now=NOW + 300), Err.AUTH_FAILED, "expired")
    assert_refused(result(challenge="ab" * 32), Err.AUTH_FAILED, "expired")
    assert_refused(result(challenge=""), Err.AUTH_FAILED, "expired")
    assert_refused(result(pubkey=wallet(2).pubkey_text), Err.AUTH_FAILED, "expired")
    assert_refused(result(signature="1" * 64), Err.AUTH_FAILED, "signature")
    assert_refused(result(signature="é"), Err.AUTH_FAILED, "signature")


def test_a_wallet_signs_a_text_that_names_the_site() -> None:
    """Decisions, "Wallet sign-in": the text as `solana:signIn` writes it, with the challenge as its nonce."""
    body = orjson.dumps({"pubkey": PUBKEY_TEXT, "format": "sign-in"})
    assert endpoints.parse_challenge_request(body) == endpoints.ChallengeRequest(wallet().pubkey, True)
    challenge = new_challenge(SECRET, wallet().pubkey, NOW, b"rand")
    reply = endpoints.sign_in_reply(challenge, 300, wallet().pubkey, ORIGIN)
    assert reply["message"] == (
        "rpc.example.com:8443 wants you to sign in with your Solana account:\n"
        f"{PUBKEY_TEXT}\n\n{reply['sign_in']['statement']}\n\n"
        f"URI: {ORIGIN}\nVersion: 1\nNonce: {challenge}\n"
        f"Issued At: {reply['sign_in']['issuedAt']}\nExpiration Time: {reply['sign_in']['expirationTime']}"
    )
    signed = verify_body(challenge=reply["message"], signature=wallet().sign_text(reply["message"]))
    request = endpoints.parse_verify_request(signed)
    assert isinstance(request, endpoints.VerifyRequest) and request.issued == challenge
    burnt = endpoints.check_verify_request(request, SECRET, NOW + 299, 300, ORIGIN)
    assert burnt == check_challenge(SECRET, challenge, wallet().pubkey, NOW, 300), "each challenge is good once"
    assert endpoints.check_verify_request(request, SECRET, NOW, 300, ORIGIN, ORIGIN.upper()) == burnt
    for other in ("https://evil.example", "null", "", ORIGIN + ".evil.example", ORIGIN.replace("https", "http")):
        sent = endpoints.check_verify_request(request, SECRET, NOW, 300, ORIGIN, other)
        assert_refused(sent, Err.AUTH_FAILED, "another origin")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rpc.example.com:8443 wants", "evil.example.com wants"),
        ("URI: https://rpc", "URI: http://rpc"),
        ("This sends no transaction", "This sends a transaction"),
        ("Version: 1", "Version: 2"),
        ("Issued At: 20", "Issued At: 19"),
        ("\n\nURI", "\n\n\nURI"),
        ("Nonce: ", "Nonce: 00"),
        ("Nonce: ", "nonce: "),
        (PUBKEY_TEXT, wallet(2).pubkey_text),
    ],
)
def test_a_text_that_this_service_did_not_ask_for_opens_nothing(old: str, new: str) -> None:
    """Signed by the right wallet, for another site, account, time or purpose."""
    challenge = new_challenge(SECRET, wallet().pubkey, NOW, b"rand")
    message = endpoints.sign_in_reply(challenge, 300, wallet().pubkey, ORIGIN)["message"]
    changed = message.replace(old, new, 1)
    assert changed != message
    request = endpoints.parse_verify_request(verify_body(challenge=changed, signature=wallet().sign_text(changed)))
    assert isinstance(request, endpoints.VerifyRequest)
    assert_refused(endpoints.check_verify_request(request, SECRET, NOW, 300, ORIGIN), Err.AUTH_FAILED)
    untouched = endpoints.VerifyRequest(request.pubkey, message, request.signature)
    assert_refused(endpoints.check_verify_request(untouched, SECRET, NOW, 300, ORIGIN), Err.AUTH_FAILED, "signature")


def test_other_forms_of_a_challenge_are_refused() -> None:
    for odd in ("siws", "", 5, None):
        body = orjson.dumps({"pubkey": PUBKEY_TEXT, "format": odd})
        assert_refused(endpoints.parse_challenge_request(body), Err.INVALID_REQUEST, "format")


@pytest.mark.parametrize("field", ["challenge", "signature"])
def test_every_field_of_verify_is_required(field: str) -> None:
    body = orjson.loads(verify_body())
    del body[field]
    assert_refused(endpoints.parse_verify_request(orjson.dumps(body)), Err.INVALID_REQUEST, f"{field} is missing")


def test_logout_takes_an_empty_object_or_nothing() -> None:
    assert endpoints.parse_logout_request(b"{}") is None
    assert endpoints.parse_logout_request(b"") is None
    assert_refused(endpoints.parse_logout_request(b"[]"), Err.INVALID_REQUEST)
    assert_refused(endpoints.parse_logout_request(b"{"), Err.INVALID_REQUEST)


def test_the_replies_are_the_interfaces() -> None:
    assert endpoints.challenge_reply("c", 300) == {"challenge": "c", "expires_in": 300}
    assert endpoints.session_reply("t", 3_600) == {"token": "t", "expires_in": 3_600}
    assert endpoints.logout_reply() == {"status": "ok"}
