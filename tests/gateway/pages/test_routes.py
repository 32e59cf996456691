"""Account, session and public paths through the real door."""

import base64
import json

import pytest

from actors.errors import Refusal
from actors.gateway.pages.account import parse_ref_code, parse_window
from tests.gateway.pages.test_sessions import login
from tests.gateway.world import a_world, call

# --- public pages


@pytest.mark.parametrize(("path", "status"), [("/health", 503), ("/pricing", 200), ("/capabilities", 200)])
async def test_public_pages_need_nothing_and_measure_nobody(path, status):
    """Interface, "Limits": no auth, no credit or rate headers and no X-Request-Id, whatever credentials come along."""
    async with a_world() as world:
        customer = await world.customer(10)
        for headers in ({}, {"x-api-key": customer.api_key}, {"x-api-key": "nonsense"}):
            response = await world.http.get(path, headers=headers)
            assert response.status_code == status
            assert response.headers["content-type"] == "application/json"
            figures = ("x-credits", "x-ratelimit", "ratelimit", "x-request-id")
            assert not [name for name in response.headers if name.startswith(figures)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/rpc"),
        ("POST", "/health"),
        ("DELETE", "/account/info"),
        ("GET", "/auth/verify"),
        ("PUT", "/"),
    ],
)
async def test_a_known_path_by_another_method_says_which_it_takes(method, path):
    """RFC 9110: 405, with the methods in `Allow` and in a sentence."""
    async with a_world() as world:
        response = await world.http.request(method, path)
        error = response.json()["error"]
        assert (response.status_code, error["constant"]) == (405, "WRONG_HTTP_METHOD")
        allowed = response.headers["allow"].split(", ")
        assert method not in allowed and "OPTIONS" in allowed and ("HEAD" in allowed) == ("GET" in allowed)
        assert all(name in error["message"] for name in allowed if name not in ("HEAD", "OPTIONS"))


async def test_an_unknown_path_points_at_the_capabilities():
    """404 NOT_FOUND with a request id."""
    async with a_world() as world:
        response = await world.http.get("/wp-login.php")
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (404, "NOT_FOUND")
        assert "/capabilities" in error["message"]
        assert error["requestId"] == response.headers["x-request-id"]


# --- accounts


async def test_an_account_begins_with_its_first_key():
    """States: no account record, then zero balance; the key is shown once and not to be cached."""
    async with a_world() as world:
        customer = await world.customer(account=False)
        path = "/account/api-key"
        for body in (b"{}", b'{"ref_code":"friend"}', b""):
            response = await world.http.post(path, content=body, headers=customer.headers("POST", path, body))
            assert response.status_code == 200, response.text
            assert response.json()["ok"] is True
            assert response.json()["api_key"].startswith("srpc_live_")
            assert response.headers["cache-control"] == "no-store"
        customer.api_key = response.json()["api_key"]
        assert await world.balance(customer) == 0


async def test_a_new_key_ends_the_old_one():
    """Regeneration invalidates the previous key at once."""
    async with a_world() as world:
        customer = await world.customer(10)
        old, path = customer.api_key, "/account/api-key"
        response = await world.http.post(path, content=b"{}", headers=customer.headers("POST", path, b"{}"))
        customer.api_key = old
        assert (await world.rpc(customer, call())).status_code == 401
        customer.api_key = response.json()["api_key"]
        assert (await world.rpc(customer, call())).status_code == 200


async def test_a_key_is_issued_to_a_wallet_signature_only():
    """Who holds a key or a session may not replace the key."""
    async with a_world() as world:
        customer = await world.customer(10)
        session = await login(world, customer)
        for headers in ({"x-api-key": customer.api_key}, session):
            response = await world.http.post("/account/api-key", content=b"{}", headers=headers)
            assert (response.status_code, response.json()["error"]["code"]) == (401, "AUTH_FAILED")
        assert (await world.http.post("/account/api-key", content=b"{}")).status_code == 402


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"ref_code":7}'])
async def test_a_key_request_of_the_wrong_shape_is_400(body):
    """400 for a wallet that has no account yet, too."""
    async with a_world() as world:
        customer = await world.customer(account=False)
        headers = customer.headers("POST", "/account/api-key", body)
        response = await world.http.post("/account/api-key", content=body, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_REQUEST")


async def test_reads_take_any_credential_and_carry_figures():
    """Interface: any mode; not billed, not rate-metered."""
    async with a_world() as world:
        customer = await world.customer(50)
        await world.rpc(customer, call())
        session = await login(world, customer)
        for path in ("/account/info", "/account/ledger", "/account/history"):
            for headers in ({"x-api-key": customer.api_key}, session, customer.headers("GET", path, b"")):
                response = await world.http.get(path, headers=headers)
                assert response.status_code == 200, response.text
                assert response.headers["x-credits-remaining"] == "49"
                assert response.headers["x-ratelimit-limit"] == "100"
        body = (await world.http.get("/account/ledger", headers=session)).json()
        assert [entry["type"] for entry in body["entries"]] == ["debit", "adjustment"]


REFUSED = [
    ("GET", "/account/ledger?limit=501", b"", 400),
    ("GET", "/account/history?offset=-1", b"", 400),
    ("POST", "/account/api-key", b"[]", 400),
    ("POST", "/account/confirm-deposit", b"{}", 400),
    ("POST", "/account/confirm-deposit", b'{"signature":"%b"}' % (b"5" * 87), 503),  # No deposit wallet is watched.
    ("POST", "/", b"{", 400),
    ("POST", "/bulk/getBalances", b'{"addresses":[]}', 400),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED)
async def test_refusals_of_a_known_account_carry_its_figures(method, path, body, status):
    """Interface, "Limits": credit and rate headers are on authenticated responses, errors included. What is wrong with
    the credential goes before what is wrong with the request, and the credential's nonce is taken."""
    async with a_world() as world:
        customer = await world.customer(50)
        signed = customer.headers(method, path.partition("?")[0], body)
        first, again = [await world.http.request(method, path, content=body, headers=signed) for _ in range(2)]
        assert [first.status_code, again.status_code] == [status, 403]
        assert again.json()["error"]["code"] == "NONCE_REUSED"
        for response in (first, again):
            assert response.headers["x-credits-remaining"] == "50"
            assert response.headers["x-credits-low"] == "true"
            assert response.headers["x-ratelimit-limit"] == response.headers["x-ratelimit-remaining"] == "100"
            assert int(response.headers["x-ratelimit-reset"]) == world.clock.now() + 1
            assert response.headers["x-request-id"]


async def test_a_dead_credential_is_told_before_a_bad_form():
    """A bad key gets 401 and no figures, whatever else is wrong with its request."""
    async with a_world() as world:
        customer = await world.customer(50)
        customer.api_key = customer.api_key[:-2] + ("AA" if not customer.api_key.endswith("AA") else "BB")
        response = await world.http.get("/account/ledger?limit=501", headers={"x-api-key": customer.api_key})
        assert (response.status_code, response.json()["error"]["code"]) == (401, "AUTH_FAILED")
        assert "x-credits-remaining" not in response.headers


async def test_a_bad_form_is_told_while_the_owner_is_away():
    """As for calls: such a refusal serves nothing on trust, so it needs no owner, and has no figures then."""
    async with a_world() as world:
        customer = await world.customer(50)
        world.accounts.down = True
        response = await world.http.get("/account/ledger?limit=501", headers={"x-api-key": customer.api_key})
        assert (response.status_code, "x-credits-remaining" in response.headers) == (400, False)


async def test_logging_out_carries_figures_whether_or_not_the_body_is_good():
    """Interface, "Limits": the token authenticates, so the account's figures are told; a wallet without account has
    none, and can log out all the same."""
    async with a_world() as world:
        customer, stranger = await world.customer(50), await world.customer(account=False)
        session, none = await login(world, customer), await login(world, stranger)
        statuses = []
        for headers, body in ((session, b"["), (session, b"{}"), (none, b"["), (none, b"{}")):
            response = await world.http.post("/auth/logout", content=body, headers=headers)
            statuses.append(response.status_code)
            assert response.headers.get("x-credits-remaining") == ("50" if headers is session else None)
        assert statuses == [400, 200, 400, 200]


async def test_a_replay_is_told_the_figures_on_every_path():
    """Interface, "Limits": 403 NONCE_REUSED is an authenticated response too."""
    async with a_world() as world:
        customer = await world.customer(50)
        for method, path in (("GET", "/account/info"), ("POST", "/account/api-key"), ("POST", "/rpc")):
            signed = customer.headers(method, path, b"{}" if method == "POST" else b"")
            sent = {"headers": signed} | ({"content": b"{}"} if method == "POST" else {})
            await world.http.request(method, path, **sent)
            response = await world.http.request(method, path, **sent)
            assert (response.status_code, response.json()["error"]["code"]) == (403, "NONCE_REUSED")
            assert response.headers["x-credits-remaining"] == "50"


async def test_reads_without_credentials_are_402_with_the_terms_of_their_path():
    """Suggested by the payment protocol: 402 on every route that takes credentials, GET included."""
    async with a_world() as world:
        response = await world.http.get("/account/info")
        assert response.status_code == 402
        assert response.json()["accepts"][0]["resource"].endswith("/account/info")
        assert "payment-required" in response.headers
        # Nothing but their own credential opens these, but a client learns where to pay, and sees no sign-in.
        for path in ("/account/api-key", "/auth/logout"):
            response = await world.http.post(path, content=b"{}")
            assert response.status_code == 402 and response.json()["accepts"][0]["resource"].endswith(path)
            assert "extensions" not in json.loads(base64.b64decode(response.headers["payment-required"]))


@pytest.mark.parametrize("path", ["/account/ledger", "/account/history"])
@pytest.mark.parametrize(
    "query", ["limit=501", "limit=0", "limit=-1", "limit=x", "offset=-1", "limit=1e2", "limit=", "offset=٣"]
)
async def test_a_window_out_of_range_is_400(path, query):
    """Decisions: defaults 0 and 50, at most 500; out of range gives INVALID_REQUEST."""
    async with a_world() as world:
        customer = await world.customer(10)
        response = await world.http.get(f"{path}?{query}", headers={"x-api-key": customer.api_key})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_REQUEST")


async def test_windows_page_through_the_entries_newest_first():
    """offset and limit."""
    async with a_world() as world:
        customer = await world.customer(100)
        for method in ("getSlot", "getVersion", "getBlockHeight"):
            await world.rpc(customer, call(method))
        headers = {"x-api-key": customer.api_key}
        body = (await world.http.get("/account/history?limit=2&offset=1&x=y", headers=headers)).json()
        assert [entry["method"] for entry in body["entries"]] == ["getVersion", "getSlot"]


async def test_listings_say_since_when_entries_are_kept():
    """In a header, where months have left the ledger; what asks for earlier entries is refused with that time."""
    async with a_world() as world:
        customer = await world.customer(100)
        await world.rpc(customer, call("getSlot"))
        headers = {"x-api-key": customer.api_key}
        whole = await world.http.get("/account/ledger", headers=headers)
        assert "x-ledger-kept-from" not in whole.headers
        world.store.cuts.kept_from = 1_701_388_800_000
        for path in ("/account/ledger", "/account/ledger?format=csv", "/account/history"):
            kept = await world.http.get(path, headers=headers)
            assert (kept.status_code, kept.headers["x-ledger-kept-from"]) == (200, "2023-12-01T00:00:00Z")
        refused = await world.http.get("/account/ledger?from=2023-11-30", headers=headers)
        told = refused.json()["error"]
        assert (refused.status_code, told["constant"]) == (410, "MONTH_DETACHED")
        assert "2023-12-01T00:00:00Z" in told["message"] and "operator" in told["message"]


@pytest.mark.parametrize(
    ("query", "window"),
    [
        (b"", (0, 50)),
        (b"limit=500&offset=7", (7, 500)),
        (b"api-key=x&limit=1", (0, 1)),
        (b"offset=00007", (7, 50)),
    ],
)
def test_windows_are_read_from_the_query(query, window):
    """Other parameters are not looked at."""
    assert parse_window(query) == window


@pytest.mark.parametrize(
    "query", [b"limit=99999999999999999999", b"limit=\xff", b"offset=%D9%A3", b"limit=1&limit=501"]
)
def test_hostile_windows_are_refusals(query):
    """Absurd digits, other scripts' digits, and a second value that is out of range."""
    assert isinstance(parse_window(query), Refusal)


@pytest.mark.parametrize(
    ("body", "ref_code"),
    [
        (b"", None),
        (b"{}", None),
        (b'{"ref_code":null}', None),
        (b'{"ref_code":""}', None),
        (b'{"ref_code":"a"}', "a"),
        (b'{"ref_code":"%b"}' % (b"x" * 65), None),
    ],
)
def test_a_referral_code_is_optional(body, ref_code):
    """`{}` and `{ref_code?: string}`; a text that cannot be a code is ignored as an unknown one is."""
    assert parse_ref_code(body) == ref_code


async def test_an_owner_that_is_away_is_503_here_too():
    """With Retry-After."""
    async with a_world() as world:
        customer = await world.customer(10)
        world.accounts.down = True
        response = await world.http.get("/account/info", headers={"x-api-key": customer.api_key})
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert response.json()["error"]["data"]["retry_after_secs"] == 5


async def test_every_503_says_retry_after_secs():
    """Interface: a 503 includes the hint, on whatever path: account, session, payment, call, batch, list, health."""
    body = {"signature": "1" * 64, "transaction": "AAAA", "addresses": ["1" * 32]}
    async with a_world() as world:
        customer = await world.customer(10)
        session, headers = await login(world, customer), {"x-api-key": customer.api_key}
        world.accounts.down = True
        found = [
            await world.http.get(path, headers=headers) for path in ("/account/info", "/account/ledger", "/health")
        ]
        found += [await world.http.post("/account/confirm-deposit", headers=headers, json=body)]
        found += [
            await world.http.post("/x402/settle", json=body),
            await world.http.post("/auth/logout", headers=session),
        ]
        found += [await world.rpc(customer, call()), await world.rpc(customer, [call(), call(id=2)])]
        found += [await world.rpc(customer, {"addresses": body["addresses"]}, "/bulk/getBalances")]
        for response in found:
            text = response.json() if response.status_code == 503 else response.json()[0]
            error = text.get("error")
            holder = error["data"] if isinstance(error, dict) else text
            assert holder["retry_after_secs"] == 5, response.text
            assert response.status_code == 200 or response.headers["retry-after"] == "5"
