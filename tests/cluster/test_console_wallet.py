"""Wallets in the console, in a real browser against the whole product, with a wallet that does what a test says."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.keys import Keys
from solders.keypair import Keypair

from actors.config import IdentityConfig
from actors.identity.challenge import new_challenge
from actors.identity.endpoints import sign_in_reply
from actors.launch.local_run.wallets import load_or_make
from bench.product import Product
from tests.browser import Browser
from tests.cluster.test_webhooks import Receiver, receiver
from tests.customers import request, rpc_body
from tests.npm import Npm

__all__ = ["receiver"]  # A fixture.

_SECONDS_MAX = 10
_WALLET = Path(__file__).parents[1] / "fake_wallet.js"
# Each replaces fetch in the page: keeps what would be sent to verify; answers a challenge as told.
_KEEPS_WHAT_IS_SENT = """const ordinary = window.fetch;
window.fetch = (url, options) => {
  if (!String(url).endsWith("/auth/verify")) return ordinary(url, options);
  window.sent = options.body;
  return Promise.reject(new Error("Not sent"));
};"""
_ASKED_LONG_AGO = """const ordinary = window.fetch, answer = arguments[0];
const headers = { "Content-Type": "application/json" };
window.fetch = (url, options) =>
  String(url).endsWith("/auth/challenge") ? Promise.resolve(new Response(answer, { headers })) : ordinary(url, options);
"""
_SENDS = """const [body, done] = arguments;
fetch("/auth/verify", { method: "POST", headers: { "Content-Type": "application/json" }, body })
  .then(async (answer) => done([answer.status, (await answer.json()).token]), (error) => done([String(error)]));"""


@contextmanager
def a_wallet(browser: Browser, product: Product, mode: str = "good") -> Iterator[Keypair]:
    """The console, opened in a browser that has a fresh wallet."""
    keypair = Keypair()
    script = _WALLET.read_text(encoding="utf-8").replace("MODE", mode).replace("SEED", bytes(keypair)[:32].hex())
    script = script.replace("PUBKEY", bytes(keypair.pubkey()).hex()).replace("ADDRESS", str(keypair.pubkey()))
    browser.complaints()  # What tests before this one left.
    added = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        browser.driver.get(f"{product.http_url}/")
        browser.driver.execute_script("sessionStorage.clear()")
        browser.driver.get(f"{product.http_url}/")
        browser.until("#wallets", "Sign in with Test Wallet")
        yield keypair
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def fund(product: Product, pubkey: str, usdc_base_units: int) -> None:
    asked = {"pubkey": pubkey, "lamports": 10**9, "usdc_base_units": usdc_base_units}
    assert httpx.post(f"{product.ready['node_url']}/admin/fund", json=asked, timeout=90).json()["ok"]


def test_a_wallet_pays_in_calls_looks_up_replays_and_signs_out(
    product: Product, browser: Browser, receiver: Receiver
) -> None:
    """From a wallet that was never seen here to credits that a program can spend, and all that its owner then does."""
    with a_wallet(browser, product) as keypair:
        browser.click("#wallets button")
        browser.until("#ask-title", "Open an account?")
        browser.click("#ask-yes")
        key = browser.until("#key-made code", "srpc_live_")
        asked = browser.driver.execute_script("return window.walletAsked")
        host = product.http_url.partition("//")[2]
        assert asked[0].startswith(f"{host} wants you to sign in with your Solana account:\n{keypair.pubkey()}\n")

        browser.click("a[href='#webhooks']")
        browser.click("#new-webhook")
        browser.write("#hook-url", receiver.url)
        browser.click("#webhook-form button[type=submit]")
        browser.until("#secret", "whsec_")

        browser.click("a[href='#usage']")
        fund(product, str(keypair.pubkey()), 2_000_000)
        browser.driver.execute_script("window.walletMode = 'refuses'")
        browser.click("#pay-button")
        assert "1 USDC" in browser.until("#ask-text", str(keypair.pubkey())[:6])
        browser.click("#ask-yes")
        browser.until("#pay-said", "Not paid: User rejected the request")
        browser.driver.execute_script("window.walletMode = 'good'")
        browser.click("#pay-button")
        browser.click("#ask-yes")
        browser.until("#pay-said", "100,000 credits now")
        browser.until("#facts", "100,000")
        account = request(f"{product.http_url}/account/info", {"X-Api-Key": key}).body
        assert (account["pubkey"], account["balance"]) == (str(keypair.pubkey()), 100_000)

        browser.click("a[href='#calls']")
        browser.until("#call-about", "Costs 1 credit")
        browser.click("#call-run")
        assert "99,999" in browser.until("#call-answer", "Result")
        browser.click("a[href='#log']")
        browser.until("#log-rows", "getBalance")

        receiver.until(1)
        credited = receiver.event_id("deposit.credited")
        browser.click("a[href='#webhooks']")
        browser.click("#webhook-rows button[data-focus^=Deliveries]")
        browser.click(f"[aria-label='Send event {credited} again']")
        browser.until("#webhook-said", "1 event will be sent again")
        receiver.until_again(credited)

        browser.click("#sign-out")
        browser.until("#wallets", "Sign in with Test Wallet")
        assert [entry for entry in browser.complaints() if not any(c in entry for c in ("401", "402", "404"))] == []


def test_another_origin_can_use_no_signature_made_here(product: Product, browser: Browser) -> None:
    """By a wallet that signs messages alone. The signature is live, and the same browser has it at another origin of
    the same service: it opens nothing there, and still does here, once. Signing out ends the session."""
    with a_wallet(browser, product, "plain"):
        browser.click("#wallets button")
        browser.until("#ask-title", "Open an account?")
        browser.click("#ask-yes")
        browser.until("#key-made code", "srpc_live_")
        browser.click("#sign-out")
        browser.until("#wallets", "Sign in with Test Wallet")
        browser.driver.execute_script(_KEEPS_WHAT_IS_SENT)
        browser.click("#wallets button")  # An account by now: no question is asked.
        browser.until("#wallet-error", "Not signed in")
        sent = browser.driver.execute_script("return window.sent")
        elsewhere = product.http_url.replace("127.0.0.1", "localhost")
        browser.driver.get(f"{elsewhere}/")
        browser.until("#wallets", "Sign in with Test Wallet")
        assert browser.driver.execute_async_script(_SENDS, sent)[0] == 401
        browser.click("#wallets button")
        browser.until("#wallet-error", f"this page is open at {elsewhere.partition('//')[2]}; wallets sign in at")
        assert browser.driver.execute_script("return window.walletAsked.length") == 0
        browser.driver.get(f"{product.http_url}/")
        status, session = browser.driver.execute_async_script(_SENDS, sent)
        assert status == 200 and browser.driver.execute_async_script(_SENDS, sent)[0] == 401
        browser.driver.execute_script("sessionStorage.setItem('ledger-gateway-key', arguments[0])", f"Bearer {session}")
        browser.driver.refresh()
        browser.until("#facts", "Balance")
        browser.click("#sign-out")
        browser.until("#wallets", "Sign in with Test Wallet")
        asks = f"{product.http_url}/account/info", {"Authorization": f"Bearer {session}"}
        deadline = time.monotonic() + _SECONDS_MAX
        while (ended := request(*asks)).status != 401:  # The page does not wait for the answer to its last request.
            assert time.monotonic() < deadline, ("signing out ends the session", ended)
        assert [entry for entry in browser.complaints() if not any(c in entry for c in ("401", "404"))] == []


def test_the_wallet_makes_freezes_rotates_and_deletes_named_keys(product: Product, browser: Browser) -> None:
    """A key with a budget that works at once, its figures and its use, and every change by the wallet's signature
    alone: a page without the wallet can look and change nothing, and a wallet of somebody else is not taken."""
    with a_wallet(browser, product) as keypair:
        browser.click("#wallets button")
        browser.until("#ask-title", "Open an account?")
        browser.click("#ask-yes")
        own = browser.until("#key-made code", "srpc_live_")
        product.operator("grant", str(keypair.pubkey()), "1000", "--reason", "test")
        browser.click("a[href='#keys']")
        browser.until("#key-rows", "No named keys yet")
        browser.click("#new-named-key")
        assert browser.focused() == "key-name"
        browser.write("#key-name", "agent")
        browser.write("#key-a-day", "3")
        browser.click("#key-groups input[value=READ_CHEAP]")
        browser.driver.execute_script("window.walletMode = 'rewrites'")
        browser.click("#key-save")
        browser.until("#key-form-error", "another text than the one that was asked for")
        assert browser.text("#key-rows").startswith("No named keys yet")
        browser.driver.execute_script("window.walletMode = 'good'")
        browser.click("#key-save")
        browser.until("#named-key-made", "shown once")
        signed = browser.driver.execute_script("return window.walletAsked.at(-1)")
        assert signed.startswith("ledger-svc:v2:POST:/account/keys:")
        key = browser.text("#named-key-made code")
        url = f"{product.http_url}/"
        spent = [request(url, {"X-Api-Key": key}, rpc_body("getSlot")).status for _ in range(4)]
        assert spent == [200, 200, 200, 403]
        browser.until("#key-rows", "Today 3 of 3")
        assert "agent" in browser.until("#key-use table", "getSlot")

        browser.click("[data-focus^='Rotate key']")
        browser.until("#ask-name", "The key that is used now")
        browser.find("#ask-choice").send_keys("works for one hour")
        browser.click("#ask-yes")
        browser.until("#keys-said", "has a new key")
        browser.until("#key-rows", "before the last rotation works until")
        assert browser.text("#named-key-made code") != key
        browser.click("[data-focus^='Freeze key']")
        browser.until("#key-rows", "frozen")
        assert request(url, {"X-Api-Key": key}, rpc_body("getSlot")).status == 401

        browser.driver.execute_script("sessionStorage.setItem('ledger-gateway-key', arguments[0])", own)
        browser.driver.refresh()  # With a key, and no wallet connected.
        browser.until("#key-wallet", "Only your wallet makes and changes keys")
        browser.until("#key-rows", "agent")
        assert not browser.find("#new-named-key").is_displayed()
        assert browser.driver.find_elements("css selector", "[data-focus^='Delete key']") == []
        browser.driver.execute_script("window.walletMode = 'lies'")
        browser.click("#key-wallet button")
        browser.until("#key-wallet-error", "choose that account in the wallet")
        browser.driver.execute_script("window.walletMode = 'good'")
        browser.click("#key-wallet button")
        browser.click("[data-focus^='Delete key']")
        browser.click("#ask-yes")
        browser.until("#key-rows", "No named keys yet")
        assert key not in browser.driver.page_source
        assert [entry for entry in browser.complaints() if "404" not in entry] == []


def test_the_hourly_limit_is_set_lifted_and_ended_by_the_wallet(product: Product, browser: Browser) -> None:
    """Each change is one signature; a wallet that refuses changes nothing; a key alone sees the limit."""
    with a_wallet(browser, product):
        browser.click("#wallets button")
        browser.until("#ask-title", "Open an account?")
        browser.click("#ask-yes")
        key = browser.until("#key-made code", "srpc_live_")
        browser.until("#hourly-facts", "learnt from your usual hours")
        browser.write("#hourly-credits", "5,000")
        browser.click("#hourly-set")
        browser.until("#hourly-facts", "5,000 credits an hour, set by your wallet")
        limit = f"{product.http_url}/account/hourly-limit"
        assert request(limit, {"X-Api-Key": key}).body["credits_an_hour"] == 5_000
        browser.click("#hourly-lift")
        browser.until("#ask-title", "Lift the limit?")
        browser.click("#ask-yes")
        browser.until("#hourly-facts", "Nothing is limited until")
        browser.click("#hourly-unlift")
        browser.until("#hourly-said", "holds again")
        browser.driver.execute_script("window.walletMode = 'refuses'")
        browser.click("#hourly-learn")
        browser.until("#hourly-said", "Nothing was changed: User rejected the request")
        browser.driver.execute_script("window.walletMode = 'good'")
        browser.click("#hourly-none")
        browser.until("#ask-title", "Have no limit?")
        browser.click("#ask-yes")
        browser.until("#hourly-said", "There is no limit")
        assert request(limit, {"X-Api-Key": key}).body["setting"] is None
        asked = browser.driver.execute_script("return window.walletAsked")
        assert sum("PATCH:/account/hourly-limit" in text for text in asked) == 5, "four changes, and one refused"
        assert [entry for entry in browser.complaints() if "404" not in entry] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_findings(product: Product, browser: Browser, npm: Npm, scheme: str) -> None:
    """Every view of a person who is signed in with a wallet, by axe-core's rules of WCAG and of good practice."""
    axe = npm.file("node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    found = "return [one.id, one.nodes.map(node => node.html.slice(0, 200))]"
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    with a_wallet(browser, product):
        browser.driver.execute_script(axe)
        for view in ("sign-in", "usage", "ledger", "calls", "log", "sends", "keys", "webhooks", "signals", "service"):
            if view == "usage":
                browser.click("#wallets button")
                browser.until("#ask-title", "Open an account?")
                browser.click("#ask-yes")
                browser.until("#key-made code", "srpc_live_")
            elif view != "sign-in":
                browser.click(f"a[href='#{view}']")
            browser.until(f"#{view}", "")
            if view == "keys":
                browser.click("#new-named-key")
            findings = browser.driver.execute_async_script(
                f"axe.run().then(told => arguments[0](told.violations.map(one => {{ {found} }})))"
            )
            assert findings == [], f"{view}: {findings}"
    browser.driver.get(f"{product.http_url}/operator")
    browser.driver.execute_script(axe)
    for view in ("sign-in", "alerts", "accounts", "deposits", "nodes", "owners"):
        if view == "alerts":
            browser.write("#token", load_or_make(product.data_dir / "secrets").operator_token + Keys.ENTER)
        elif view != "sign-in":
            browser.click(f"a[href='#{view}']")
        browser.until(f"#{view}", "")
        if view == "accounts":
            browser.click("#account-rows button")
            browser.until("#account-facts", "Public key")
            browser.click("#account-facts button[data-focus^=Give]")
        findings = browser.driver.execute_async_script(
            f"axe.run().then(told => arguments[0](told.violations.map(one => {{ {found} }})))"
        )
        assert findings == [], f"{view}: {findings}"
        if view == "accounts":
            browser.click("#fill-no")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("refuses", "User rejected the request"),
        ("lies", "not by this wallet"),
        ("rewrites", "another text than the one that was asked for"),
        ("late", "it came too late"),
    ],
)
def test_a_wallet_that_does_not_do_what_it_was_asked_signs_nobody_in(
    product: Product, browser: Browser, mode: str, said: str
) -> None:
    """late: the wallet signs when the challenge, which this service issued, has expired by a second."""
    with a_wallet(browser, product, mode) as keypair:
        if mode == "late":
            browser.driver.execute_script(_ASKED_LONG_AGO, _expired_challenge(product, bytes(keypair.pubkey())))
        browser.click("#wallets button")
        browser.until("#wallet-error", said)
        assert browser.driver.execute_script("return sessionStorage.length") == 0
        browser.until("#wallets", "Sign in with Test Wallet")


def _expired_challenge(product: Product, pubkey: bytes) -> str:
    """The body of POST /auth/challenge as this service gave it one lifetime of a challenge ago."""
    secret = json.loads((product.data_dir / "secrets" / "local.json").read_text())["cluster_secret"]
    seconds = IdentityConfig().challenge_seconds
    text = new_challenge(secret.encode(), pubkey, int(time.time()) - seconds, bytes(4))
    return json.dumps(sign_in_reply(text, seconds, pubkey, product.http_url))
