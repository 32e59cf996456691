"""A headless Chromium for tests of pages: the one of the system, installed by apt where it is missing and may be.

A pytest plugin (see tests/cluster/conftest.py). Where Chromium cannot be had, the tests skip and say why.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

WAIT_SECONDS = 60  # A slow machine is no failure; each wait ends as soon as its text is there.
_INSTALL_SECONDS = 300
_BINARIES = ("chromium", "chromium-browser", "google-chrome")
_NOT_YET = [ElementClickInterceptedException, ElementNotInteractableException, StaleElementReferenceException]
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,900"),
    *("--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-extensions"),
)


class Browser:
    """One window. Text is looked for as a person reads it: what is shown."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text that is shown there now; nothing where the page is being redrawn."""
        return str(self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until(self, selector: str, wanted: str) -> str:
        """Wait until this text is shown there."""
        waited = WebDriverWait(self.driver, WAIT_SECONDS, poll_frequency=0.1)
        waited.until(lambda _: wanted in self.text(selector), f"no {wanted!r} in {selector}")
        return self.text(selector)

    def click(self, selector: str) -> None:
        self._act(selector, lambda element: element.click())

    def write(self, selector: str, text: str) -> None:
        self._act(selector, lambda element: (element.clear(), element.send_keys(text)))

    def _act(self, selector: str, act: Callable[[WebElement], object]) -> None:
        """A page that is redrawn between the look and the act is looked at again, as is what is not shown yet."""

        def done(_: webdriver.Chrome) -> bool:
            act(self.find(selector))
            return True

        waited = WebDriverWait(self.driver, WAIT_SECONDS, 0.1, ignored_exceptions=_NOT_YET)
        waited.until(done, f"{selector} could not be used")

    def focused(self) -> str:
        """The id of the element that has the keyboard, or its text."""
        return str(self.driver.execute_script("const at = document.activeElement; return at.id || at.innerText"))

    def complaints(self) -> list[str]:
        """The log of the browser since the last look: errors of scripts, and loads that the policy refused."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def _chromium() -> str:
    for _ in range(2):
        binary = next((found for name in _BINARIES if (found := shutil.which(name))), None)
        if binary is not None and shutil.which("chromedriver") is not None:
            return binary
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            break
        _install()
    pytest.skip("Chromium and chromedriver are not installed: apt-get install chromium chromium-driver")


def _install() -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    packages = ("chromium", "chromium-driver", "fonts-dejavu-core")
    for command in (("update", "-q"), ("install", "-y", "-q", "--no-install-recommends", *packages)):
        try:
            done = subprocess.run(
                ("apt-get", *command),
                check=False,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_INSTALL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"Chromium could not be installed within {_INSTALL_SECONDS} s")
        if done.returncode:
            pytest.skip(f"Chromium could not be installed: {(done.stderr or done.stdout)[-300:]}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    options.binary_location = _chromium()
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_page_load_timeout(WAIT_SECONDS)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
