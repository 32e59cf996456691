"""The operators' page in a real browser against the whole product. Rule: decisions, "The operators' page"."""

import json

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from actors.launch.local_run.wallets import load_or_make
from bench.product import Product
from tests.browser import Browser
from tests.customers import Answer, Customer, request

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


def enter_as_operator(product: Product, browser: Browser) -> None:
    browser.driver.get(f"{product.http_url}/operator")
    browser.write("#token", load_or_make(product.data_dir / "secrets").operator_token + Keys.ENTER)
    browser.until("#alerts", "as of")


def test_an_account_pays_by_the_list_that_an_operator_gave_it(product: Product) -> None:
    """By command and by the page; on whichever of two replicas its calls arrive. Rule: decisions, "Price lists"."""
    customer = Customer(product)
    customer.grant(5_000)
    token = load_or_make(product.data_dir / "secrets").operator_token
    slot = customer.call("getSlot").body["result"]

    def costs() -> set[str]:
        found = [customer.call("getBlock", slot, {"transactionDetails": "none"}) for _ in range(6)]
        assert all(answer.status == 200 for answer in found), found
        return {answer.headers["X-Credits-Cost"] for answer in found}

    def page() -> Answer:
        return request(f"{product.http_url}/pricing", {"X-Api-Key": customer.api_key})

    assert costs() <= {"25", "13"} and page().body["methods"]["getBlock"]["credits"] == 25
    told = json.loads(product.command("accounts", "price", customer.pubkey, "wholesale", "--unchecked", "--json"))
    assert told["price_list"] == "wholesale"
    assert costs() <= {"7", "4"} and page().body["methods"]["getBlock"]["credits"] == 7
    path = f"{product.http_url}/operator/accounts/{customer.pubkey}/price-list"
    gone = request(path, {"X-Operator-Token": token}, b'{"name": "retail"}')
    assert gone.status == 400 and "wholesale" in gone.body["error"]["message"]
    back = request(path, {"X-Operator-Token": token}, b'{"name": "public"}')
    assert back.body["account"]["price_list"] == "public" and costs() <= {"25", "13"}


def test_an_operator_finds_an_account_gives_it_credits_and_suspends_it(product: Product, browser: Browser) -> None:
    """Behind the token of this run; each change is asked about first, and is what the customer finds. Leaving forgets
    the token and all that was shown."""
    customer = Customer(product)
    customer.grant(5_000)
    token = load_or_make(product.data_dir / "secrets").operator_token
    browser.driver.get(f"{product.http_url}/operator")
    assert browser.focused() == "token"
    browser.write("#token", customer.api_key + Keys.ENTER)
    browser.until("#token-error", "not the operator's token")
    browser.write("#token", token + Keys.ENTER)
    browser.until("#alerts", "as of")
    for view, wanted in (("nodes", "well"), ("owners", "account-shard-0"), ("deposits", "Deposit account")):
        browser.click(f"a[href='#{view}']")
        browser.until(f"#{view}", wanted)
    browser.click("a[href='#accounts']")
    browser.write("#account-find", customer.pubkey[:12])
    WebDriverWait(browser.driver, 60, 0.1).until(
        lambda _: len(browser.driver.find_elements("css selector", "#account-rows button")) == 1
    )
    browser.click("#account-rows button")
    browser.until("#account-facts", "5,000 credits")
    browser.click("#account-facts button[data-focus^=Give]")
    browser.write("#fill-credits", "much")
    browser.write("#fill-reason", HOSTILE + Keys.ENTER)
    browser.until("#fill-error", "whole number")
    browser.write("#fill-credits", "1,500" + Keys.ENTER)
    assert customer.pubkey in browser.until("#ask-text", "Reason: <img")
    assert customer.balance == 5_000
    browser.click("#ask-yes")
    browser.until("#account-said", "The balance is 6,500")
    assert customer.balance == 6_500
    browser.click("#account-facts button.danger")
    browser.write("#fill-reason", "asked for by mail" + Keys.ENTER)
    browser.until("#ask-title", "Suspend this account?")
    browser.click("#ask-yes")
    browser.until("#account-said", "is suspended")
    assert customer.call("getSlot").status == 403
    browser.click("#account-facts button[data-focus=Restore]")
    browser.write("#fill-reason", "paid" + Keys.ENTER)
    browser.until("#account-said", "is active")
    assert customer.call("getSlot").status == 200
    assert token not in browser.driver.current_url
    browser.driver.refresh()
    browser.until("#account-rows", customer.pubkey)
    browser.click("#sign-out")
    browser.until("#sign-in", "Operator's token")
    assert browser.driver.execute_script("return JSON.stringify([{...sessionStorage}, {...localStorage}])") == "[{},{}]"
    assert token not in browser.driver.page_source and customer.pubkey not in browser.driver.page_source
    assert "taken" not in browser.driver.title
    assert [entry for entry in browser.complaints() if "401" not in entry] == []
