"""GET /pricing with and without a credential.

Rule: decisions, "Price lists"; interface, "Public endpoints".
"""

from tests.gateway.world import a_world, constant

LISTS = {"pricing": {"lists": {"wholesale": {"percent": 60}}}}


async def test_the_page_shows_the_asker_its_own_prices_and_everybody_else_the_public_ones() -> None:
    async with a_world(**LISTS) as world:
        wallet, other = await world.customer(), await world.customer()
        await world.give_list(wallet, "wholesale")
        for headers, name in (
            ({}, None),
            ({"x-api-key": wallet.api_key}, "wholesale"),
            ({"x-api-key": other.api_key}, None),
        ):
            answer = await world.http.get("/pricing", headers=headers)
            assert answer.status_code == 200 and answer.json().get("list") == name
            assert answer.headers["vary"] and ("no-store" in answer.headers.get("cache-control", "")) is bool(headers)
            assert "x-credits-remaining" not in answer.headers
        signed = await world.http.get("/pricing", headers=wallet.headers("GET", "/pricing", b""))
        assert signed.json()["list"] == "wholesale"


async def test_a_bad_credential_is_refused_and_a_guesser_is_limited_by_its_address() -> None:
    """As on the pages of accounts: else keys could be tried here for nothing."""
    async with a_world(identity={"address_requests_per_minute": 3}, **LISTS) as world:
        tried = [await world.http.get("/pricing", headers={"x-api-key": "srpc_live_" + "A" * 43}) for _ in range(5)]
        assert {answer.status_code for answer in tried} == {401, 429} and constant(tried[0]) == "AUTH_FAILED"
        assert (await world.http.get("/pricing")).status_code == 200


async def test_without_lists_in_the_settings_no_credential_is_looked_at() -> None:
    async with a_world() as world:
        wallet = await world.customer()
        await world.give_list(wallet, "gone")
        for key in (wallet.api_key, "srpc_live_" + "A" * 43):
            answer = await world.http.get("/pricing", headers={"x-api-key": key})
            assert answer.status_code == 200 and "list" not in answer.json() and "vary" not in answer.headers


async def test_an_owner_that_is_away_is_not_taken_for_the_public_prices() -> None:
    async with a_world(**LISTS) as world:
        wallet = await world.customer()
        world.accounts.down = True
        assert (await world.http.get("/pricing", headers={"x-api-key": wallet.api_key})).status_code == 503
        assert (await world.http.get("/pricing")).status_code == 200
