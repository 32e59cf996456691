"""The console in a real browser against the whole product."""

import os
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from bench.product import Product
from tests.browser import Browser
from tests.cluster.test_operators import enter_as_operator
from tests.cluster.test_sends import Sender, signature
from tests.customers import Customer, request, rpc_body
from tests.signals import chain_calls

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
# Lets a test break the page's stream of signals, and keep it broken.
BREAKABLE = """
const before = fetch;
window.cut = new AbortController();
window.fetch = (path, options) => {
  if (!path.startsWith('/signals/stream')) return before(path, options);
  if (window.gone) return Promise.reject(new TypeError('gone'));
  return before(path, {...options, signal: AbortSignal.any([options.signal, window.cut.signal])});
};
"""
# Cells of tables that end right of the content of their panel.
PAST_THE_PANEL = """
return [...document.querySelectorAll('.panel td')].filter(cell => {
  if (!cell.checkVisibility()) return false;
  const panel = cell.closest('.panel'), edge = panel.getBoundingClientRect().right;
  return cell.getBoundingClientRect().right > edge - parseFloat(getComputedStyle(panel).paddingRight) + 1;
}).map(cell => cell.innerText);
"""


@pytest.fixture
def hostile_receiver() -> Iterator[str]:
    """The URL of an endpoint that answers with a page's worth of trouble."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(500)
            self.send_header("content-length", str(len(HOSTILE)))
            self.end_headers()
            self.wfile.write(HOSTILE.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/{quote(HOSTILE)}"
    server.shutdown()
    server.server_close()


def sign_in(browser: Browser, customer: Customer) -> None:
    browser.driver.get(f"{customer.product.http_url}/")
    browser.driver.execute_script("sessionStorage.clear()")
    browser.driver.get(f"{customer.product.http_url}/")
    browser.until("#sign-in", "API key")
    browser.write("#key", customer.api_key + Keys.ENTER)
    browser.until("#facts", "Balance")


def test_a_customer_sees_a_call_arrive_and_keeps_the_key_to_the_tab(product: Product, browser: Browser) -> None:
    """Sign-in, a bad key, the first call in the chart and the ledger, and sign-out; the key is in no address."""
    customer = Customer(product)
    customer.grant(5_000)
    browser.driver.get(f"{product.http_url}/")
    browser.until("#health", "All systems work")
    browser.until("#public-facts", "1 credit")
    terms = request(f"{product.http_url}/.well-known/x402.json", {}).body["deposit"]
    assert terms["usdc_mint"] in browser.until("#pay-step", terms["deposit_address"])
    assert "ledger-svc:v2:POST:/account/api-key" in browser.text("#sign-in")
    assert browser.focused() == "key"
    browser.write("#key", "srpc_live_nobody-has-this-key" + Keys.ENTER)
    browser.until("#key-error", "not valid")

    sign_in(browser, customer)
    assert "5,000" in browser.until("#facts", "No use yet")
    assert terms["deposit_address"] in browser.until("#pay", customer.pubkey)
    browser.until("#chart", "No calls in the last 24 hours")
    for _ in range(3):
        request(f"{product.http_url}/", {"X-Api-Key": customer.api_key}, rpc_body("getSlot"))
    browser.until("#chart table", "getSlot")
    assert browser.driver.find_elements("css selector", "#chart svg rect.t0")
    assert "4,997" in browser.until("#facts", "3 calls")
    browser.find("#chart svg").send_keys(Keys.END)
    assert "3 credits: getSlot 3" in browser.text("#chart .readout")

    browser.click("a[href='#ledger']")
    assert "getSlot" in browser.until("#ledger-rows", "+5,000")
    assert customer.api_key not in browser.driver.current_url
    browser.driver.refresh()  # The tab remembers the key, and the page.
    browser.until("#ledger-rows", "getSlot")
    browser.click("#sign-out")
    browser.until("#sign-in", "API key")
    assert browser.driver.execute_script("return JSON.stringify([{...sessionStorage}, {...localStorage}])") == "[{},{}]"
    assert customer.api_key not in browser.driver.page_source
    assert [entry for entry in browser.complaints() if "401" not in entry] == []


def test_the_log_shows_calls_as_they_are_made_and_finds_one_by_its_request_id(
    product: Product, browser: Browser
) -> None:
    """Refused and free ones too; paused it stands still; another account sees none of it."""
    customer = Customer(product)
    customer.grant(5_000)
    sign_in(browser, customer)
    browser.click("a[href='#log']")
    browser.until("#log-rows", "No calls in the last 24 hours")
    customer.call("getSlot")
    assert "answered" in browser.until("#log-rows", "getSlot")
    refused = customer.call("getBalance", HOSTILE)
    request_id = refused.headers["X-Request-Id"]
    assert "invalid params" in browser.until("#log-rows", request_id) and HOSTILE not in browser.text("#log-rows")
    browser.write("#log-request", request_id)
    WebDriverWait(browser.driver, 60, 0.1).until(lambda _: "getSlot" not in browser.text("#log-rows"))
    assert "getBalance" in browser.text("#log-rows")
    browser.find("#log-request").send_keys(Keys.BACKSPACE * 64)
    browser.until("#log-rows", "getSlot")
    browser.find("#log-outcome").send_keys("Answered")
    WebDriverWait(browser.driver, 60, 0.1).until(lambda _: "invalid params" not in browser.text("#log-rows"))
    browser.click("#log-pause")
    assert browser.text("#log-state") == "Paused"
    sign_in(browser, Customer(product))
    browser.click("a[href='#log']")
    browser.until("#log-rows", "No calls in the last 24 hours")
    assert browser.complaints() == []


def test_a_send_is_a_timeline_of_its_legs(product: Product, browser: Browser) -> None:
    """From the list of charged sends; a signature that was not sent here, and one that is none, are told apart."""
    sender = Sender(product)
    transaction = sender.payment()
    sender.race(transaction)
    landed = sender.until(transaction, "confirmed")
    sign_in(browser, sender.customer)
    browser.click("a[href='#sends']")
    browser.until("#send-timeline", "No send is open")
    browser.write("#send-signature", "no signature" + Keys.ENTER)
    browser.until("#send-error", "base58")
    browser.write("#send-signature", "5" * 87 + Keys.ENTER)
    browser.until("#send-timeline", "No send of this signature")
    browser.until("#send-rows", signature(transaction)[:8])
    browser.click("#send-rows button")
    shown = browser.until("#send-timeline", "Leaders by QUIC")
    assert f"{landed['landing_time_ms']:,} ms" in shown and f"{landed['slot']:,}" in shown and "confirmed" in shown
    assert browser.driver.find_elements("css selector", "#send-timeline svg .leg-taken")
    assert browser.driver.find_elements("css selector", "#send-timeline svg .leg-landed")
    assert browser.complaints() == []


def test_a_call_is_built_priced_made_and_shown_as_a_program(product: Product, browser: Browser) -> None:
    """What it costs before, what it answered and cost after; parameters that are no list cannot be sent, and a send is
    asked about first."""
    customer = Customer(product)
    customer.grant(5_000)
    sign_in(browser, customer)
    browser.click("a[href='#calls']")
    browser.until("#call-about", "Costs 1 credit")
    assert customer.pubkey in browser.until("#call-program", "curl")
    assert customer.api_key not in browser.text("#call-program")
    browser.click("#call-price")
    browser.until("#call-answer", "This call costs 1 credit")
    browser.click("#call-run")
    told = browser.until("#call-answer", "Result")
    assert '"value": 0' in told and "1 credit" in told and "4,999" in told
    browser.click("#language-choices button:nth-child(2)")
    browser.until("#call-program", "gateway.call")
    browser.write("#call-params", '["no address"]')
    browser.click("#call-run")
    assert "-32602" in browser.until("#call-answer", "Error") and "0 credits" in browser.text("#call-answer")
    browser.write("#call-params", "{")
    browser.until("#call-error", "must be a list")
    assert not browser.find("#call-run").is_enabled()
    browser.find("#call-method").send_keys("sendTransaction")
    browser.until("#call-about", "2 credits")
    browser.click("#call-run")
    browser.until("#ask-title", "Send this transaction?")
    browser.click("#ask-no")
    assert customer.balance == 4_999
    assert browser.complaints() == []


def test_a_webhook_is_made_tested_and_deleted_and_its_answers_are_text(
    product: Product, browser: Browser, hostile_receiver: str
) -> None:
    """What an endpoint answers, and its own URL, are hostile text: shown as it is, and never run. On the way: Escape
    closes the form, the secret is renewed, and a webhook that was disabled is enabled."""
    customer = Customer(product)
    customer.grant(5_000)
    sign_in(browser, customer)
    browser.click("a[href='#webhooks']")
    browser.until("#webhook-rows", "No webhooks yet")
    browser.click("#new-webhook")
    assert browser.focused() == "hook-url"
    browser.find("#hook-url").send_keys(Keys.ESCAPE)
    assert browser.focused() == "new-webhook" and not browser.find("#webhook-form").is_displayed()
    browser.click("#new-webhook")
    browser.write("#hook-url", "http://169.254.169.254/")
    browser.click("#webhook-form button[type=submit]")
    browser.until("#hook-error", "url")
    browser.write("#hook-url", hostile_receiver)
    browser.click("#webhook-form button[type=submit]")
    assert "whsec_" in browser.until("#secret", "shown once")
    browser.until("#webhook-rows", "onerror")
    browser.click("#webhook-rows button[data-focus^=Test]")
    assert "status 500" in browser.until("#webhook-said", "<script>")
    first = browser.text("#secret code")
    browser.click("#webhook-rows button[data-focus^=New]")
    browser.click("#ask-yes")
    browser.until("#webhook-said", "has a new secret")
    assert browser.text("#secret code") not in ("", first)
    headers = {"X-Api-Key": customer.api_key, "Content-Type": "application/json"}
    (hook,) = request(f"{product.http_url}/webhooks", headers).body["webhooks"]
    change = urllib.request.Request(
        f"{product.http_url}/webhooks/{hook['id']}", b'{"status": "disabled"}', headers, method="PATCH"
    )
    urllib.request.urlopen(change, timeout=30).close()
    browser.driver.refresh()
    browser.until("#webhook-rows", "Enable")
    browser.click("#webhook-rows button[data-focus^=Enable]")
    browser.until("#webhook-said", "active again")
    browser.click("#webhook-rows button[data-focus^=Delete]")
    browser.click("#ask-yes")
    browser.until("#webhook-rows", "No webhooks yet")
    assert "taken" not in browser.driver.title
    assert browser.driver.find_elements("css selector", "main img, main script") == []
    assert [entry for entry in browser.complaints() if "400" not in entry] == []


def test_a_signal_is_seen_live_and_again_after_the_stream_was_lost(product: Product, browser: Browser) -> None:
    """The live stream shows a coin as it is made; when the connection breaks, the page says so and goes on."""
    customer = Customer(product)
    customer.grant(5_000)
    sign_in(browser, customer)
    browser.click("a[href='#signals']")
    browser.until("#signals-help", "5 credits for each connection")
    browser.driver.execute_script(BREAKABLE)
    browser.click("#live")
    browser.until("#live-state", "Live")
    mints = [chain_calls.launch(product.ready["node_url"])["mint"]]
    browser.until("#signal-rows", mints[0][:8])
    browser.driver.execute_script("window.gone = true; window.cut.abort(); window.cut = new AbortController()")
    browser.until("#live-state", "The stream was lost")
    mints.append(chain_calls.launch(product.ready["node_url"])["mint"])
    browser.driver.execute_script("window.gone = false")
    browser.until("#signal-rows", mints[1][:8])
    browser.click("#live")
    assert browser.text("#live-state") == ""
    hostile = {
        "kind": HOSTILE,
        "mint": HOSTILE,
        "program": HOSTILE,
        "signature": "x",
        "slot": HOSTILE,
        "quote_asset": HOSTILE,
    }
    browser.driver.execute_script(
        "const before = fetch, body = {ok: true, events: [arguments[0]], next_cursor: '1-1'}; window.fetch ="
        " (path, ...rest) => path.startsWith('/signals/recent') ? Promise.resolve(Response.json(body))"
        " : before(path, ...rest)",
        hostile,
    )
    browser.until("#signal-rows", "<img")
    assert "taken" not in browser.driver.title
    assert browser.driver.find_elements("css selector", "main img, main script") == []


def test_a_gateway_that_is_busy_or_gone_is_said_in_words(product: Product, browser: Browser) -> None:
    """429 with its wait, 402, and no answer at all; and all is well again when the gateway is back."""
    customer = Customer(product)
    sign_in(browser, customer)
    browser.until("#notice", "no credits")
    answers = "const before = window.before ??= fetch; window.fetch = (path, ...rest) => path === '/account/info' ? "
    rest = " : before(path, ...rest)"
    busy = "{error: {code: 'RATE_LIMITED', message: 'too many requests'}}, {status: 429, headers: {'retry-after': '3'}}"
    browser.driver.execute_script(f"{answers}Promise.resolve(Response.json({busy})){rest}")
    browser.until("#notice", "Next try in 3 seconds")
    browser.driver.execute_script("window.fetch = () => Promise.reject(new TypeError('gone'))")
    browser.until("#notice", "does not answer")
    browser.until("#health", "does not answer")
    browser.driver.execute_script("window.fetch = window.before")
    browser.until("#notice", "no credits")
    browser.until("#health", "All systems work")


@pytest.mark.parametrize("scheme", ["light", "dark"] if "LONG_TESTS" in os.environ else ["dark"])
def test_every_page_fits_a_phone_and_can_be_walked_by_keyboard(product: Product, browser: Browser, scheme: str) -> None:
    """380 px without scrolling sideways in both schemes; every control is reached by Tab and shows that it has it."""
    customer = Customer(product)
    customer.grant(5_000)
    request(f"{product.http_url}/", {"X-Api-Key": customer.api_key}, rpc_body("getSlot"))
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    phone = {"width": 380, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        sign_in(browser, customer)
        for view, wanted in (
            ("usage", "getSlot"),
            ("ledger", "getSlot"),
            ("calls", "getBalance"),
            ("log", "getSlot"),
            ("sends", "No send is open"),
            ("keys", "No named keys yet"),
            ("webhooks", "New"),
            ("signals", "Signals"),
            ("service", "WebSocket subscriptions"),
        ):
            browser.click(f"a[href='#{view}']")
            browser.until(f"#{view}", wanted)
            wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 380, f"{view} is {wide} px wide"
            past = browser.driver.execute_script(PAST_THE_PANEL)
            assert past == [], f"{view}: {past} run out of their panel"
            assert browser.text("#health").strip()
            reached = set()
            for _ in range(40):
                browser.driver.switch_to.active_element.send_keys(Keys.TAB)
                reached.add(browser.focused())
            controls = browser.driver.execute_script(
                "return [...document.querySelectorAll('a, button, input, select')]"
                ".filter(at => at.checkVisibility() && !at.disabled).map(at => at.id || at.innerText)"
            )
            assert set(controls) <= reached, set(controls) - reached
        enter_as_operator(product, browser)
        for view in ("alerts", "accounts", "deposits", "nodes", "owners"):
            browser.click(f"a[href='#{view}']")
            browser.until(f"#{view}", "")
            wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 380, f"{view} is {wide} px wide"
            past = browser.driver.execute_script(PAST_THE_PANEL)
            assert past == [], f"{view}: {past} run out of their panel"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
