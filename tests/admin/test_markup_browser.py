"""What others wrote runs no script in a real browser, whatever page shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from django.test import Client
from selenium.common.exceptions import UnexpectedAlertPresentException

from tests.admin.corpus import CORPUS
from tests.admin.crawl import crawl
from tests.admin.world import fill

if TYPE_CHECKING:
    from tests.admin.browser import Page

pytestmark = pytest.mark.once


@pytest.mark.django_db(transaction=True)
def test_no_script_runs_in_a_browser_that_nothing_but_escaping_protects(lawless_page: Page) -> None:
    fill(list(CORPUS))
    client = Client()
    client.force_login(User.objects.get())
    paths = [visit.path for visit in crawl(client, each=1) if visit.status == 200 and "html" in visit.type]
    lawless_page.log_in()
    assert len(paths) > 20
    with lawless_page.in_every_document(
        "window.ran = []; window.pwned = () => window.ran.push(document.location.href)"
    ):
        for path in paths:
            visit(lawless_page, path)


def visit(page: Page, path: str) -> None:
    try:
        page.open(path)
        page.driver.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
        assert page.driver.execute_script("return window.ran") == [], path
        assert page.driver.current_url == page.base + path
        foreign = "return [...document.querySelectorAll('[src], link')].map(e => e.src || e.href)"
        assert all(each.startswith(page.base) for each in page.driver.execute_script(foreign)), path
    except UnexpectedAlertPresentException as error:
        raise AssertionError(f"a dialog opened on {path}") from error
