"""A real browser before a real server, under the strict policy. Fixture ``page``; screenshots go where
DBQUEUE_TEST_SCREENSHOTS says, else into the test's temporary directory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test import override_settings
from django.test.testcases import LiveServerThread
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

from tests.admin import pictures
from tests.patience import patience

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
POLICY = "tests.admin.csp.strict_policy"
PATIENCE = patience(30)
"""Seconds after which what a page should show is called missing."""
SETTLED = """
const done = arguments[arguments.length - 1];
const drawn = () => new Promise(requestAnimationFrame);
drawn().then(drawn).then(() => Promise.all(document.getAnimations().map(each => each.finished))).then(() => done());
"""
"""Waits until what has changed is drawn, and its colours have faded over."""


class Page:
    """What a person does at a browser."""

    def __init__(self, driver: Any, base: str, shots: Path) -> None:
        self.driver = driver
        self.base = base
        self.shots = shots

    def open(self, path: str) -> None:
        self.driver.get(self.base + path)

    def log_in(self) -> None:
        self.open("/admin/")
        self.find('input[name="username"]').send_keys("op" + Keys.TAB + "secret")
        self.enter()

    def find(self, selector: str) -> Any:
        return self.until(lambda: self.driver.find_element(By.CSS_SELECTOR, selector), selector)

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Wait for something on a page that may be replacing its elements, and return what that gave."""
        wait = WebDriverWait(self.driver, PATIENCE, ignored_exceptions=[StaleElementReferenceException])
        try:
            return wait.until(lambda _driver: happened())
        except TimeoutException:
            text = self.driver.find_element(By.TAG_NAME, "body").text
            raise AssertionError(f"waited {PATIENCE:g} s in vain for {what}; the page says: {text}") from None

    def see(self, text: str) -> None:
        """Wait until the page says it, by itself."""
        self.until(lambda: text in self.text, repr(text))

    def click(self, selector: str) -> None:
        """Click, and wait until the next page has replaced this one."""
        here = self.find("html")
        self.find(selector).click()
        self.wait_until_gone(here)

    def press(self, key: str) -> Any:
        """Press keys where the focus is, and return the element that has it then.

        By the keyboard, which asks nobody; an element's own ``send_keys`` refuses one that is just being laid out.
        """
        ActionChains(self.driver).send_keys(key).perform()
        return self.driver.switch_to.active_element

    def tab_to(self, selector: str) -> Any:
        """Walk by the Tab key to an element; fail when the keyboard can't get there."""
        self.find(selector)
        for _ in range(120):
            # Asked anew each time: a page that refreshes itself has other elements by and by
            if self.driver.execute_script("return document.activeElement.matches(arguments[0])", selector):
                return self.driver.switch_to.active_element
            self.press(Keys.TAB)
        raise AssertionError(f"Tab never reaches {selector}")

    def wait_for_focus(self, selector: str) -> None:
        """Wait until the page has set the focus where it says: that comes with its first picture, not with its load."""
        self.until(lambda: self.driver.switch_to.active_element == self.find(selector), f"the focus on {selector}")

    def enter(self) -> None:
        """Press Enter, and wait until the next page has replaced this one."""
        here = self.find("html")
        self.press(Keys.ENTER)
        self.wait_until_gone(here)

    def wait_until_gone(self, element: Any) -> None:
        self.until(lambda: staleness_of(element)(self.driver), "another page")
        self.until(lambda: self.driver.execute_script("return document.readyState") == "complete", "all of the page")

    @contextmanager
    def in_every_document(self, script: str) -> Iterator[None]:
        """Run a script in each page that is opened, before the page's own."""
        added = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)

    def go_dark(self, *, dark: bool = True) -> None:
        """Prefer the dark theme, as the system's setting says it."""
        value = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.execute_async_script(SETTLED)

    @property
    def text(self) -> str:
        return str(self.find("body").text)

    @contextmanager
    def window(self, width: int, height: int) -> Iterator[None]:
        """Be so large for a while, whatever the screen is."""
        size: dict[str, Any] = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            self.driver.execute_async_script(SETTLED)
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def shot(self, name: str) -> None:
        self.driver.save_screenshot(str(self.shots / f"{name}.png"))

    def picture(self, name: str) -> None:
        """Take a picture for the documentation, or see that the page still says what it shows."""
        self.shot(name)
        text = pictures.steady(self.driver.execute_script(pictures.TEXTS))
        if pictures.are_wanted():
            pictures.keep(name, (self.shots / f"{name}.png").read_bytes(), text)
        assert pictures.text_of(name) == text, pictures.difference(name, text)

    def complaints(self) -> list[str]:
        """What the browser's console has said since it was asked, the policy's violations among it."""
        return [line["message"] for line in self.driver.get_log("browser") if "favicon" not in line["message"]]


@contextmanager
def serving() -> Iterator[str]:
    """Serve this test's database; the server reads the settings as it starts, and so one belongs to each test."""
    thread = LiveServerThread("localhost", StaticFilesHandler)
    thread.daemon = True
    thread.start()
    thread.is_ready.wait()
    try:
        if thread.error:
            raise thread.error
        yield f"http://localhost:{thread.port}"
    finally:
        thread.terminate()


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Drive a Chromium with a profile of its own."""
    assert CHROMIUM, "chromium is not installed: bin/test installs it"
    assert CHROMEDRIVER, "chromedriver is not installed: bin/test installs it"
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "disable-dev-shm-usage",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1280,900",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    driver.set_script_timeout(patience(60))  # axe-core looks at all of a page
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests of a process: starting one takes longer than most of them."""
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def forget(driver: Any) -> None:
    """Leave nothing of a test in the browser for the next one."""
    driver.get("about:blank")
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "default"})
    driver.get_log("browser")


def place_for_shots(directory: Path) -> Path:
    """Where screenshots go: where DBQUEUE_TEST_SCREENSHOTS says, else into this directory."""
    shots = Path(os.environ.get("DBQUEUE_TEST_SCREENSHOTS", directory))
    shots.mkdir(parents=True, exist_ok=True)
    return shots


@contextmanager
def opened_browser(driver: Any, directory: Path, *, middleware: tuple[str, ...]) -> Iterator[Page]:
    """Put the browser before a server with this middleware in front of the others, and the operator op/secret."""
    User.objects.create_superuser("op", password="secret")
    apps = ["django_dbqueue", *(app for app in settings.INSTALLED_APPS if app != "django_dbqueue")]
    with (
        override_settings(
            MIDDLEWARE=[*middleware, *settings.MIDDLEWARE],
            INSTALLED_APPS=apps,
            ALLOWED_HOSTS=["localhost", "testserver"],
        ),
        serving() as base,
    ):
        try:
            yield Page(driver, base, place_for_shots(directory))
        finally:
            forget(driver)


@pytest.fixture
def page(transactional_db: None, driver: Any, tmp_path: Path) -> Iterator[Page]:
    """Under ``Content-Security-Policy: default-src 'self'``, with the console's shortcuts on the first page."""
    with opened_browser(driver, tmp_path, middleware=(POLICY,)) as page:
        yield page


@pytest.fixture
def lawless_page(transactional_db: None, driver: Any, tmp_path: Path) -> Iterator[Page]:
    """Without a policy, so that nothing but escaping keeps a script from running."""
    with opened_browser(driver, tmp_path, middleware=()) as page:
        yield page
