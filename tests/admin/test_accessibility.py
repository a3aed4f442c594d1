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

PARTS = 6
"""In how many tests the pages are visited: all of them in one came near to a test's limit of time."""
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
RUN = """
const done = arguments[arguments.length - 1];
const options = {resultTypes: ['violations'], ...arguments[0]};
axe.run(document, options).then(found => done(found.violations), error => done(String(error)));
"""
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The rules to which a theme makes a difference."""
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


def findings(page: Page, **options: Any) -> list[str]:
    """What axe-core, which the page has already, finds where it matters."""
    violations: Any = page.driver.execute_async_script(RUN, options)
    assert isinstance(violations, list), violations
    return [
        f"{found['impact']} {found['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
        for found in violations
        if found["impact"] in GRAVE
        for node in found["nodes"]
    ]


def missed_by_tab(page: Page) -> list[str]:
    """Walk by the Tab key, in bursts, so that a page costs a few calls."""
    page.driver.execute_script(COUNT)
    wanted = int(page.driver.execute_script(REACHABLE))
    for _ in range(12):
        reached = int(page.driver.execute_script("return window.reached.size"))
        if reached >= wanted:
            return []
        page.press(Keys.TAB * 25)
    return [f"the Tab key never reaches {wanted - reached} of {wanted}"]


@pytest.mark.parametrize("part", range(PARTS))
def test_axe_the_console_and_the_tab_key_find_nothing_amiss_on_any_page(page: Page, part: int) -> None:
    """Loading a page costs the most, so that each is loaded once for all of it."""
    paths = all_pages()[part::PARTS]
    page.log_in()
    page.complaints()
    found: dict[str, list[str]] = {}
    for path in paths:
        page.go_dark(dark=False)
        page.open(path)
        faults = page.complaints()
        page.driver.execute_script(AXE)
        faults += findings(page)
        page.go_dark()
        faults += [f"in the dark: {finding}" for finding in findings(page, **COLOURS)]
        page.complaints()  # of what axe-core did
        faults += missed_by_tab(page)
        if faults:
            found[path] = faults
    assert not found, "\n".join(f"{path}\n  " + "\n  ".join(faults) for path, faults in found.items())


def test_axe_finds_what_is_wrong(page: Page) -> None:
    """So that an axe-core that doesn't run is not taken for pages without fault."""
    page.log_in()
    page.driver.execute_script(
        "const image = document.createElement('img'); image.src = '/static/admin/img/icon-yes.svg';"
        "document.querySelector('#content').append(image)"
    )
    page.driver.execute_script(AXE)
    assert any("image-alt" in finding for finding in findings(page))
