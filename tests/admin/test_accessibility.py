"""Every page in Chromium, light and dark: axe-core finds nothing serious, the console says nothing, the keyboard gets
everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from selenium.webdriver.common.keys import Keys

from tests.admin.crawl import crawl, places
from tests.admin.world import fill

if TYPE_CHECKING:
    from tests.admin.browser import Page

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations), error => done(String(error)));
"""
GRAVE = {"serious", "critical"}
REACHABLE = """
return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter(each =>
    each.tabIndex >= 0 && !each.disabled && each.checkVisibility({visibilityProperty: true}) &&
    each.getClientRects().length && each.closest('#content')
    && !(each.type === 'radio' && !each.checked)).length
"""
COUNT = """
window.reached = new Set();
document.addEventListener('focusin', event => {
    if (event.target.closest('#content')) window.reached.add(event.target);
});
"""

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]


def all_pages() -> list[str]:
    """Make a world, and return a path for each kind of page in it."""
    fill(["order 17"])
    client = Client()
    client.force_login(User.objects.get())
    visits = crawl(client, each=1)
    paths = [visit.path for visit in visits if visit.status == 200 and "html" in visit.type]
    assert len(paths) > len([place for place in places() if place.name.endswith(("_change", "_changelist"))])
    return paths


def findings(page: Page) -> list[str]:
    """What axe-core finds on the page that is open, where it matters."""
    page.driver.execute_script(AXE)
    violations: Any = page.driver.execute_async_script(RUN)
    assert isinstance(violations, list), violations
    return [
        f"{found['impact']} {found['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
        for found in violations
        if found["impact"] in GRAVE
        for node in found["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_and_the_console_find_nothing_on_any_page(page: Page, theme: str) -> None:
    paths = all_pages()
    page.driver.set_script_timeout(60)
    page.go_dark(dark=theme == "dark")
    page.log_in()
    page.complaints()
    found: dict[str, list[str]] = {}
    for path in paths:
        page.open(path)
        said = page.complaints()
        if both := [*said, *findings(page)]:
            found[path] = both
        page.complaints()  # of what axe-core did
    assert not found, "\n".join(f"{path}\n  " + "\n  ".join(said) for path, said in found.items())


def test_the_tab_key_reaches_everything_on_every_page(page: Page) -> None:
    paths = all_pages()
    page.log_in()
    missed: dict[str, int] = {}
    for path in paths:
        page.open(path)
        page.driver.execute_script(COUNT)
        wanted = int(page.driver.execute_script(REACHABLE))
        for _ in range(12):  # bursts, so that a page costs a few calls
            reached = int(page.driver.execute_script("return window.reached.size"))
            if reached >= wanted:
                break
            page.press(Keys.TAB * 25)
        else:
            missed[path] = wanted - reached
    assert not missed


def test_axe_finds_what_is_wrong(page: Page) -> None:
    """So that an axe-core that doesn't run is not taken for pages without fault."""
    page.log_in()
    page.driver.execute_script(
        "const image = document.createElement('img'); image.src = '/static/admin/img/icon-yes.svg';"
        "document.querySelector('#content').append(image)"
    )
    assert any("image-alt" in finding for finding in findings(page))
