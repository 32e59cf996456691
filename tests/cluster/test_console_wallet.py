"""Wallets in the console, in a real browser against the whole product, with a wallet that does what a test says."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from solders.keypair import Keypair

from bench.product import Product
from tests.browser import Browser
from tests.customers import request
from tests.npm import Npm

_WALLET = Path(__file__).parents[1] / "fake_wallet.js"


@contextmanager
def a_wallet(browser: Browser, product: Product, mode: str = "good") -> Iterator[Keypair]:
    """The console, opened in a browser that has a fresh wallet."""
    keypair = Keypair()
    script = _WALLET.read_text(encoding="utf-8").replace("MODE", mode).replace("SEED", bytes(keypair)[:32].hex())
    script = script.replace("PUBKEY", bytes(keypair.pubkey()).hex()).replace("ADDRESS", str(keypair.pubkey()))
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


@pytest.mark.parametrize("mode", ["good", "plain"])
def test_a_wallet_opens_its_account_pays_in_and_signs_out(product: Product, browser: Browser, mode: str) -> None:
    """From a wallet that was never seen here to credits that a program can spend. plain: it signs messages alone."""
    with a_wallet(browser, product, mode) as keypair:
        browser.click("#wallets button")
        browser.until("#ask-title", "Open an account?")
        browser.click("#ask-yes")
        key = browser.until("#key-made code", "srpc_live_")
        asked = browser.driver.execute_script("return window.walletAsked")
        host = product.http_url.partition("//")[2]
        assert asked[0].startswith(f"{host} wants you to sign in with your Solana account:\n{keypair.pubkey()}\n")
        if mode == "good":
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
        assert (account["pubkey"], account["balance"]) == (str(keypair.pubkey()), 100_000 if mode == "good" else 0)
        browser.click("#sign-out")
        browser.until("#wallets", "Sign in with Test Wallet")
        browser.click("#wallets button")  # An account by now: no question is asked.
        browser.until("#facts", "Balance")
        held = browser.driver.execute_script("return sessionStorage.getItem('ledger-gateway-key')")
        assert held.startswith("Bearer ")
        browser.click("#sign-out")
        browser.until("#wallets", "Sign in with Test Wallet")
        ended = request(f"{product.http_url}/account/info", {"Authorization": held})
        assert ended.status == 401, "signing out ends the session"
        assert [entry for entry in browser.complaints() if not any(c in entry for c in ("401", "402", "404"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_findings(product: Product, browser: Browser, npm: Npm, scheme: str) -> None:
    """Every view of a person who is signed in with a wallet, by axe-core's rules of WCAG and of good practice."""
    axe = npm.file("node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    found = "return [one.id, one.nodes.map(node => node.html.slice(0, 200))]"
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    with a_wallet(browser, product):
        browser.driver.execute_script(axe)
        for view in ("sign-in", "usage", "ledger", "calls", "webhooks", "signals", "service"):
            if view == "usage":
                browser.click("#wallets button")
                browser.until("#ask-title", "Open an account?")
                browser.click("#ask-yes")
                browser.until("#key-made code", "srpc_live_")
            elif view != "sign-in":
                browser.click(f"a[href='#{view}']")
            browser.until(f"#{view}", "")
            findings = browser.driver.execute_async_script(
                f"axe.run().then(told => arguments[0](told.violations.map(one => {{ {found} }})))"
            )
            assert findings == [], f"{view}: {findings}"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("refuses", "User rejected the request"),
        ("lies", "not by this wallet"),
        ("rewrites", "another text than the one that was asked for"),
    ],
)
def test_a_wallet_that_does_not_do_what_it_was_asked_signs_nobody_in(
    product: Product, browser: Browser, mode: str, said: str
) -> None:
    with a_wallet(browser, product, mode):
        browser.click("#wallets button")
        browser.until("#wallet-error", said)
        assert browser.driver.execute_script("return sessionStorage.length") == 0
        browser.until("#wallets", "Sign in with Test Wallet")
