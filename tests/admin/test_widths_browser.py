"""Every page on a bad morning, as wide as people's windows are: nothing is cut off, and in the dark all can be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import Client
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

from django_dbqueue.admin.state_words import WORDS
from tests.admin.bad_morning import fill
from tests.admin.conftest import url
from tests.admin.crawl import HOME, crawl
from tests.admin.test_accessibility import AXE, COLOURS, findings
from tests.patience import patience

if TYPE_CHECKING:
    from tests.admin.browser import Page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]
SIZES = ((1400, 900), (1100, 800), (390, 844))
PHONE = 390
"""On which wide tables scroll in their own frames."""
OVER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """
return [...document.querySelectorAll('#content :is(table, p, pre, h1, h2, .readonly)')].filter(each => {
    const frame = each.closest('.results, .dbqueue-scroll') ?? each;
    const isInline = getComputedStyle(frame).display == 'inline';
    return each.checkVisibility() && frame.scrollWidth > frame.clientWidth && !isInline;
}).map(each => `${each.tagName} ${each.className}: ${each.innerText.replace(/\\s+/g, ' ').slice(0, 60)}`)
"""
"""What is wider than the frame that it is in."""
LINES = """
return [...document.querySelectorAll(arguments[0])].flatMap(each => {
    const lines = new Map();
    for (const walk = document.createTreeWalker(each, NodeFilter.SHOW_TEXT); walk.nextNode();) {
        const range = document.createRange();
        [...walk.currentNode.data].forEach((letter, at) => {
            range.setStart(walk.currentNode, at);
            range.setEnd(walk.currentNode, at + 1);
            const top = Math.round(range.getBoundingClientRect().top);
            lines.set(top, (lines.get(top) ?? '') + letter);
        });
    }
    return [...lines.values()];
});
"""
"""What stands in each line of what is found."""
WIDEN = """
const found = document.querySelector(arguments[0]);
found.textContent = 'x'.repeat(900);
found.style.cssText = 'white-space: nowrap; word-break: normal; overflow-wrap: normal';
"""


def pages() -> list[str]:
    """Make a bad morning, and return a path of each kind of page, and of a message of each state."""
    made = fill(User.objects.get())
    client = Client()
    client.force_login(User.objects.get())
    visits = [visit for visit in crawl(client, each=1) if visit.status == 200 and "html" in visit.type]
    found = [
        *(visit.path for visit in visits if "?" not in visit.path),
        *(f"{url('changelist')}?state={name}" for name in WORDS),
    ]
    found += [url("change", made[name].pk) for name in WORDS]
    assert {HOME, url("changelist", model="failure"), url("changelist", model="flow")} <= set(found)
    return list(dict.fromkeys(path for path in found if path.startswith(HOME)))


def over_of(page: Page) -> int:
    """Return by how much the page is wider than its window, once its charts have been drawn anew."""
    try:
        WebDriverWait(page.driver, patience(5)).until(lambda driver: driver.execute_script(OVER) == 0)
    except TimeoutException:
        return int(page.driver.execute_script(OVER))
    return 0


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_nothing_is_cut_off_and_all_can_be_read_in_the_dark(page: Page, width: int, height: int) -> None:
    paths = pages()
    page.log_in()
    page.go_dark()
    wrong: dict[str, list[str]] = {}
    with page.window(width, height):
        for path in paths:
            page.open(path)
            if over := over_of(page):
                wrong[path] = [f"{over} pixels wider than its window"]
            elif width != PHONE and (cut := page.driver.execute_script(CUT)):
                wrong[path] = cut
            if width == PHONE:
                page.driver.execute_script(AXE)
                if pale := findings(page, **COLOURS):
                    wrong[f"{path} in the dark"] = pale
    assert not wrong, "\n".join(f"{where}\n  " + "\n  ".join(what) for where, what in wrong.items())


def test_the_dashboard_fits_a_window_that_has_become_narrower(page: Page) -> None:
    fill(User.objects.get())
    page.log_in()
    page.open(HOME)
    for width, height in SIZES:
        with page.window(width, height):
            assert over_of(page) == 0


def test_the_failures_list_matches_its_picture_and_breaks_no_name_within_a_part(page: Page) -> None:
    fill(User.objects.get())
    page.log_in()
    page.open(url("changelist", model="failure"))
    with page.window(1280, 757):
        page.picture("failures")  # in docs/console.md
        lines = page.driver.execute_script(LINES, "#result_list :is(.dbqueue-where, .field-handler .dbqueue-line)")
        assert page.driver.execute_script(CUT) == []
    parts = {part for line in lines for part in re.findall("[a-z]+", line)}
    assert {"webhooks", "outgoing", "payments", "deliver", "endpoint", "merchant"} <= parts


def test_what_is_cut_off_is_found(page: Page) -> None:
    page.log_in()
    page.open(url("changelist", model="queue"))
    assert page.driver.execute_script(CUT) == []
    page.driver.execute_script(WIDEN, "#content h1")
    assert [found[:2] for found in page.driver.execute_script(CUT)] == ["H1"]
    assert page.driver.execute_script(OVER) > 0
