"""The console under django-unfold and django-jazzmin, in Chromium, before a site of its own: a theme replaces the
admin's templates, and may replace its site, as Django starts.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import Select, WebDriverWait

from django_dbqueue.models import BulkOperation, Message
from tests.admin.bad_morning import fill
from tests.admin.browser import Page, forget, place_for_shots
from tests.admin.conftest import url
from tests.admin.crawl import HOME
from tests.admin.test_accessibility import AXE, findings
from tests.admin.test_widths_browser import pages
from tests.patience import patience

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]
PARTS = 4
"""In how many tests all pages are visited, each well below a test's limit of time."""
STATUS = "return performance.getEntriesByType('navigation')[0].responseStatus"
OVER = """
return Math.max(...[...document.querySelectorAll('html, main')].map(each => each.scrollWidth - each.clientWidth))
"""
"""By how much the page is wider than its window, or than the part of it that scrolls under jazzmin."""
PALE = re.compile(r"dbqueue.*contrast of [0-3]\.", re.DOTALL)
"""What of ours can hardly be read, as axe-core says it. Links of jazzmin's own reach 4.26, where 4.5 are wanted."""
BARE = """
return [...document.querySelectorAll('[class*=dbqueue], .dbqueue-confirmation input')].filter(each =>
    each.checkVisibility() && each.matches('a.button, button, input[type=submit], input[type=text], textarea'))
    .filter(each => { const style = getComputedStyle(each);
        return style.borderTopWidth === '0px' && style.backgroundColor === 'rgba(0, 0, 0, 0)'; })
    .map(each => each.outerHTML.slice(0, 80))
"""
"""Fields and buttons of ours that nobody can see."""


@contextmanager
def served(environment: dict[str, str], log: Path) -> Iterator[str]:
    """Serve this test's database by a process of its own, and say where."""
    command = [sys.executable, "-m", "django", "runserver", "--noreload", "--skip-checks", "--insecure", "127.0.0.1:0"]
    with (
        log.open("wb") as file,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=file, text=True) as server,
    ):
        try:
            matches = (re.search(r"server at (http://\S+?)/?\s", line) for line in server.stdout or ())
            found = next(filter(None, matches), None)
            assert found is not None, log.read_text()
            yield found[1]
        finally:
            server.terminate()


@pytest.fixture(params=["unfold", "jazzmin"])
def themed(request: pytest.FixtureRequest, worker_env: dict[str, str], driver: Any, tmp_path: Path) -> Iterator[Page]:
    """A person who is logged in, where this theme is installed."""
    User.objects.create_superuser("op", password="secret")
    environment = {"DJANGO_SETTINGS_MODULE": "tests.admin.themed_settings", "DBQUEUE_TEST_THEME": request.param}
    with served(worker_env | environment, tmp_path / "web.log") as base:
        try:
            page = Page(driver, base, place_for_shots(tmp_path) / request.param)
            page.shots.mkdir(exist_ok=True)
            page.log_in()
            yield page
        finally:
            forget(driver)


def over_of(page: Page) -> int:
    try:
        WebDriverWait(page.driver, patience(5)).until(lambda driver: driver.execute_script(OVER) <= 0)
    except TimeoutException:
        return int(page.driver.execute_script(OVER))
    return 0


def errors(page: Page) -> list[str]:
    """What the console calls an error; that a project has no icon is none of ours."""
    lines = [line for line in page.driver.get_log("browser") if line["level"] == "SEVERE"]
    return [line["message"] for line in lines if "favicon" not in line["message"]]


def assert_all_are_well(page: Page, paths: Iterable[str], *, colours: bool) -> None:
    """Open each page, wide and as narrow as a telephone, and say of all of them what is wrong."""
    errors(page)
    wrong: dict[str, list[Any]] = {}
    for path in paths:
        page.go_dark(dark=False)
        page.open(path)
        name = re.sub(r"\W+", "_", path.removeprefix(HOME)).strip("_") or "dashboard"
        status = page.driver.execute_script(STATUS)
        found = [*([] if status == 200 else [status]), *errors(page), *page.driver.execute_script(BARE)]
        for width, height in ((1400, 900), (390, 844)):
            with page.window(width, height):
                found += [f"{over} pixels wider than {width}"] if (over := over_of(page)) else []
                page.shot(f"{name}_{width}")
        for dark in (False, True) if colours else ():
            if dark:
                page.go_dark()
                page.open(path)  # jazzmin asks for the system's setting once
            page.driver.execute_script(AXE)
            found += [each for each in findings(page, runOnly=["color-contrast"]) if PALE.search(each)]
        if found:
            wrong[path] = found
    assert not wrong, "\n".join(f"{path}\n  " + "\n  ".join(map(str, found)) for path, found in wrong.items())


def test_a_page_of_each_shape_is_there_and_fits_its_window(themed: Page) -> None:
    made = fill(User.objects.get())
    group = quote("crawl/tenant-17")
    paths = [
        "/admin/",
        HOME,
        f"{url('changelist')}?state=dead",
        url("change", made["waiting"].pk),
        url("edit", made["dead"].pk),
        url("drop", made["dead"].pk),
        url("rate", group, model="group"),
        url("change", group, model="group"),
        url("change", made["operation"], model="bulkoperation"),
        url("add", model="schedule"),
    ]
    assert_all_are_well(themed, paths, colours=False)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_is_there_fits_its_window_and_can_be_read_in_the_dark(themed: Page, part: int) -> None:
    assert_all_are_well(themed, pages()[part::PARTS], colours=True)


def press(page: Page, selector: str) -> Any:
    """Click what a person has scrolled to: a bar of the theme may cover what is at the edge of the window."""
    found = page.find(selector)
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    page.until(found.is_displayed, f"{selector} to be seen")
    found.click()
    return found


def follow(page: Page, selector: str) -> None:
    """Click, and wait for the next page."""
    here = page.find("html")
    press(page, selector)
    page.wait_until_gone(here)


def choose_in_unfold(page: Page, label: str) -> None:
    actions = page.find('.actions select[name="action"]')
    page.until(actions.is_displayed, "the actions")
    Select(actions).select_by_visible_text(label)


def choose_in_jazzmin(page: Page, label: str) -> None:
    press(page, ".actions .select2-selection")
    options = page.find(".select2-results__options")
    page.until(lambda: label in options.text, label)
    [option] = [each for each in options.find_elements("tag name", "li") if each.text == label]
    option.click()


CHOOSE: dict[str, Callable[[Page, str], None]] = {"unfold": choose_in_unfold, "jazzmin": choose_in_jazzmin}


def test_an_operator_requeues_downloads_and_stops_by_clicking(themed: Page) -> None:
    made = fill(User.objects.get())
    themed.open("/admin/")
    follow(themed, 'a[href$="?state=dead"]')
    dead = Message.objects.get(pk=press(themed, "input.action-select").get_attribute("value"))
    CHOOSE[themed.shots.name](themed, "Requeue selected messages")
    themed.shot("actions")
    follow(themed, '.actions button[name="index"]')
    follow(themed, 'input[type="submit"].default')
    themed.see("Requeue: 1 message.")
    assert Message.objects.ready().filter(pk=dead.pk).exists()

    themed.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "deny"})
    themed.open(url("change", dead.pk))
    press(themed, ".dbqueue-download")
    downloads = LogEntry.objects.filter(object_id=str(dead.pk), change_message__contains="Payload downloaded")
    themed.until(downloads.exists, "the entry of the download")

    themed.open(url("change", made["operation"], model="bulkoperation"))
    follow(themed, ".dbqueue-stop")
    themed.see("Stopped by op.")
    assert BulkOperation.objects.get().state == "stopped"
    assert errors(themed) == []
