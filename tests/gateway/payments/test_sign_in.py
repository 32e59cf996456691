"""Signing in on a 402: a wallet with an account calls without paying; nothing else gets in that way."""

import base64
from typing import Any

import base58
import orjson
import pytest
from nacl.signing import SigningKey

from actors.accounts.nonces import Nonces, signed_request
from actors.calls import WalletProof
from actors.config import PaymentsConfig
from actors.gateway.payments.sign_in import HEADER, NONCE_BYTES, VALID_SECONDS, SignIn
from tests.gateway.payment_doubles import Desk
from tests.gateway.world import World, a_world, call, constant

ORIGIN, NOW = "https://rpc.example", 1_700_000_000
PAYMENTS = PaymentsConfig(network="devnet")
SIGN_IN = SignIn(PAYMENTS, ORIGIN)
KEY = SigningKey(b"k" * 32)


def text_of(info: dict[str, Any], address: str, chain: str) -> str:
    """As the extension's own packages build it (Sign-In-With-Solana)."""
    lines = [f"{info['domain']} wants you to sign in with your Solana account:", address, ""]
    lines += [info["statement"], ""] if info.get("statement") else []
    lines += [f"URI: {info['uri']}", f"Version: {info['version']}", f"Chain ID: {chain.split(':')[1]}"]
    lines += [f"Nonce: {info['nonce']}", f"Issued At: {info['issuedAt']}"]
    lines += [f"Expiration Time: {info['expirationTime']}"] if info.get("expirationTime") else []
    lines += [f"Not Before: {info['notBefore']}"] if info.get("notBefore") else []
    lines += [f"Request ID: {info['requestId']}"] if info.get("requestId") else []
    lines += ["Resources:", *(f"- {one}" for one in info["resources"])] if info.get("resources") else []
    return "\n".join(lines)


def signed(extension: dict[str, Any], key: SigningKey = KEY, **changes: Any) -> bytes:
    """The header of a wallet that changed these fields before it signed."""
    chain = extension["supportedChains"][0]
    info = extension["info"] | chain | changes
    address = base58.b58encode(bytes(key.verify_key)).decode()
    info = {"address": address} | info
    signature = key.sign(text_of(info, info["address"], info["chainId"]).encode()).signature
    return encoded(info | {"signature": base58.b58encode(signature).decode()})


def encoded(proof: Any) -> bytes:
    return base64.b64encode(orjson.dumps(proof))


def offered(now: int = NOW) -> dict[str, Any]:
    extension = SIGN_IN.offer(f"{ORIGIN}/rpc", now, bytes(range(NONCE_BYTES)))
    assert extension is not None
    return extension


def proof_of(value: bytes, now: int = NOW) -> WalletProof | None:
    return SIGN_IN.proof([(HEADER, value)], now)


def test_the_offer_is_what_clients_check():
    """Domain and origin of the answering server, a nonce, times, the chain, and a schema of the proof."""
    extension = offered()
    info = extension["info"]
    assert (info["domain"], info["uri"], info["version"]) == ("rpc.example", f"{ORIGIN}/rpc", "1")
    assert info["nonce"] == bytes(range(NONCE_BYTES)).hex()
    assert (info["issuedAt"], info["expirationTime"]) == ("2023-11-14T22:13:20.000Z", "2023-11-14T22:15:20.000Z")
    assert extension["supportedChains"] == [{"chainId": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "type": "ed25519"}]
    assert set(extension["schema"]["required"]) >= {"domain", "address", "signature"}


def test_a_good_sign_in_is_a_wallets_proof():
    """Its nonce is taken by the owner of the account, like that of any wallet signature."""
    proof = proof_of(signed(offered()))
    assert proof == WalletProof(
        bytes(KEY.verify_key), f"siwx:{bytes(range(NONCE_BYTES)).hex()}", NOW + VALID_SECONDS // 2
    )


def test_what_the_client_may_add_is_signed_too():
    """Request id, not-before and resources, and no statement at all."""
    changes = {"requestId": "r1", "notBefore": "2023-11-14T22:13:20Z", "resources": ["https://a.example/x"]}
    assert proof_of(signed(offered(), **changes)) is not None
    assert proof_of(signed(offered(), statement=None)) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": "evil.example"},
        {"uri": "https://evil.example/rpc"},
        {"uri": f"{ORIGIN}.evil.example/rpc"},
        {"version": "2"},
        {"chainId": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"},
        {"type": "eip191"},
        {"nonce": "short"},
        {"nonce": "-" * 32},
        {"issuedAt": "yesterday"},
        {"issuedAt": "2023-11-14T22:13:20"},
        {"issuedAt": "2023-11-14T22:13:26.000Z"},
        {"expirationTime": "2023-11-14T22:13:19Z"},
        {"expirationTime": "never"},
        {"notBefore": "2023-11-14T22:13:21Z"},
        {"statement": "two\nlines"},
        {"resources": ["https://a.example/"] * 9},
        {"resources": "https://a.example/"},
        {"address": "11111111111111111111111111111111"},
    ],
)
def test_what_was_signed_for_something_else_is_no_sign_in(changes):
    """Another site, another chain, another time, or a text that could be read in two ways."""
    assert proof_of(signed(offered(), **changes)) is None


@pytest.mark.parametrize("value", [b"", b"*", encoded([]), encoded({}), encoded({"domain": 7}), b"A" * 9_000])
def test_what_is_no_sign_in_is_passed_over(value):
    """Strangers choose these bytes."""
    assert proof_of(value) is None


def test_a_changed_field_breaks_the_signature():
    """Every line is signed."""
    value = orjson.loads(base64.b64decode(signed(offered())))
    changes = {
        "nonce": "f" * 32,
        "statement": "Give me all.",
        "uri": f"{ORIGIN}/other",
        "issuedAt": "2023-11-14T22:13:19.000Z",
        "expirationTime": "2023-11-14T22:15:21.000Z",
        "requestId": "more",
    }
    for name, text in changes.items():
        assert proof_of(encoded(value | {name: text})) is None, name


def test_a_text_is_good_no_longer_than_the_owner_takes_it():
    """money rule 11: the owner looks at its time again, and forgets its nonce only when no door takes the text."""
    value = signed(offered(), expirationTime="2033-01-01T00:00:00Z")
    for now in (NOW - 5, NOW, NOW + VALID_SECONDS):
        proof = proof_of(value, now)
        assert Nonces().decide(signed_request(proof), b"an operation", 100, now) is None
    assert proof_of(value, NOW + VALID_SECONDS + 1) is None
    assert signed_request(proof).good_until == NOW + VALID_SECONDS


def test_two_sign_ins_are_none():
    """Which one is meant is not guessed."""
    value = signed(offered())
    assert SIGN_IN.proof([(HEADER, value), (HEADER, value)], NOW) is None


def test_it_can_be_switched_off():
    """Then it is neither offered nor taken."""
    off = SignIn(PaymentsConfig(network="devnet", sign_in_with_x=False), ORIGIN)
    assert off.offer(f"{ORIGIN}/", NOW, bytes(16)) is None
    assert off.proof([(HEADER, signed(offered()))], NOW) is None


async def terms_of(world: World) -> dict[str, Any]:
    response = await world.rpc(None, call())
    found: dict[str, Any] = orjson.loads(base64.b64decode(response.headers["payment-required"]))
    return found["extensions"]["sign-in-with-x"]


async def test_a_wallet_with_credits_signs_in_and_is_served():
    """Each text signs one call; used again it is refused as any nonce is."""
    async with a_world(desk=Desk()) as world:
        customer = await world.customer(credits=10)
        value = signed(await terms_of(world), customer.key).decode()
        response = await world.rpc(None, call(), **{"SIGN-IN-WITH-X": value})
        assert response.status_code == 200 and response.headers["x-credits-remaining"] == "9"
        again = await world.rpc(None, call(), **{"SIGN-IN-WITH-X": value})
        assert (again.status_code, constant(again)) == (403, "NONCE_REUSED")
        read = signed(await terms_of(world), customer.key).decode()
        info = await world.http.get("/account/info", headers={"SIGN-IN-WITH-X": read})
        assert info.json()["balance"] == 9


async def test_each_offer_has_a_nonce_of_its_own():
    """Two calls of one wallet in one second are two texts."""
    async with a_world(desk=Desk()) as world:
        first, second = await terms_of(world), await terms_of(world)
        assert first["info"]["nonce"] != second["info"]["nonce"]


async def test_a_wallet_without_an_account_is_asked_to_pay():
    """402 and the terms again, so that the client goes on to its payment; a sign-in that is bad likewise."""
    async with a_world(desk=Desk()) as world:
        for value in (signed(await terms_of(world)).decode(), "nonsense"):
            response = await world.rpc(None, call(), **{"SIGN-IN-WITH-X": value})
            assert response.status_code == 402 and "payment-required" in response.headers


async def test_other_credentials_come_first():
    """The interface's own three; a sign-in beside them is not looked at."""
    async with a_world(desk=Desk()) as world:
        customer, other = await world.customer(credits=5), await world.customer(credits=7)
        value = signed(await terms_of(world), other.key).decode()
        response = await world.rpc(customer, call(), **{"SIGN-IN-WITH-X": value})
        assert response.headers["x-credits-remaining"] == "4"
        assert await world.balance(other) == 7
