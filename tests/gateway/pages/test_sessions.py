"""Sessions through the real door: challenge, verify, logout."""

import pytest

from actors.gateway.doors.parts import public_url_of
from tests.gateway.world import Wallet, World, a_world


async def login(world: World, customer: Wallet) -> dict[str, str]:
    """A session by challenge and signature: the headers that carry its token."""
    challenge = (await world.http.post("/auth/challenge", json={"pubkey": customer.text})).json()["challenge"]
    body = {"pubkey": customer.text, "challenge": challenge, "signature": customer.sign(challenge)}
    response = await world.http.post("/auth/verify", json=body)
    assert response.status_code == 200, response.text
    return {"authorization": f"Bearer {response.json()['token']}"}


async def test_a_session_lives_until_logout():
    """Challenge, verify, use, logout, 401."""
    async with a_world() as world:
        customer = await world.customer(10)
        session = await login(world, customer)
        assert (await world.http.get("/account/info", headers=session)).status_code == 200
        response = await world.http.post("/auth/logout", content=b"{}", headers=session)
        assert (response.status_code, response.json()) == (200, {"status": "ok"})
        assert (await world.http.get("/account/info", headers=session)).status_code == 401


async def test_a_challenge_is_good_once_and_for_its_key_only():
    """Burned by its first use; another key's signature over it is AUTH_FAILED."""
    async with a_world() as world:
        customer, other = await world.customer(10), await world.customer(10)
        asked = (await world.http.post("/auth/challenge", json={"pubkey": customer.text})).json()
        assert asked["expires_in"] == 300
        assert len(asked["challenge"]) == 64
        text = asked["challenge"]
        stolen = {"pubkey": other.text, "challenge": text, "signature": other.sign(text)}
        mine = {"pubkey": customer.text, "challenge": text, "signature": customer.sign(text)}
        statuses = [(await world.http.post("/auth/verify", json=body)).status_code for body in (stolen, mine, mine)]
        assert statuses == [401, 200, 401]


async def test_a_foreign_origin_is_not_hidden_behind_another_one():
    """Decisions, "Wallet sign-in": two lines of one header are one list, whichever of them a proxy adds or keeps."""
    async with a_world() as world:
        customer, own = await world.customer(10), public_url_of(world.config)
        for origins, status in (([own], 200), ([own, "https://evil.example"], 401), ([own, own], 401)):
            asked = {"pubkey": customer.text, "format": "sign-in"}
            text = (await world.http.post("/auth/challenge", json=asked)).json()["message"]
            body = {"pubkey": customer.text, "challenge": text, "signature": customer.sign(text)}
            sent = [("origin", each) for each in origins]
            assert (await world.http.post("/auth/verify", json=body, headers=sent)).status_code == status


async def test_an_expired_challenge_is_401():
    """Valid for 300 seconds."""
    async with a_world() as world:
        customer = await world.customer(10)
        text = (await world.http.post("/auth/challenge", json={"pubkey": customer.text})).json()["challenge"]
        world.clock.advance(300)
        body = {"pubkey": customer.text, "challenge": text, "signature": customer.sign(text)}
        assert (await world.http.post("/auth/verify", json=body)).status_code == 401


@pytest.mark.parametrize("path", ["/auth/challenge", "/auth/verify"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"pubkey":7}', b"x" * 5_000])
async def test_session_bodies_of_the_wrong_shape_are_400(path, body):
    """With a sentence that names what is wrong."""
    async with a_world() as world:
        response = await world.http.post(path, content=body)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_REQUEST")


async def test_logout_takes_a_session_token_only():
    """A key has no session to end."""
    async with a_world() as world:
        customer = await world.customer(10)
        response = await world.http.post("/auth/logout", content=b"{}", headers={"x-api-key": customer.api_key})
        assert response.status_code == 401
        assert (await world.http.post("/auth/logout", content=b"{}")).status_code == 402
