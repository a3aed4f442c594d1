"""The bar for end users in a real browser, without a login and under the strict policy: it moves, and stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError

from django_dbqueue import flow
from django_dbqueue.models import Message
from django_dbqueue.progress import links, progress_view
from tests.admin.test_accessibility import AXE, findings
from tests.factories import QUEUE, claim_one

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

    from tests.admin.browser import Page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]
IN_NO_TIME = """
window.waits = []; window.asked = 0;
const later = window.setTimeout, ask = window.fetch;
window.setTimeout = (what, wait, ...said) => {
    if (what.name !== "ask") return later(what, wait, ...said);
    window.waits.push(wait);
    return later(what, 20);
};
window.fetch = (...said) => { window.asked++; return ask(...said); };
"""
"""Records how long the script wants to wait, and how often it asks; axe-core has timers of its own."""
STATE = """
const [bar, text] = [document.querySelector("progress"), document.querySelector("[role=status]")];
return [bar.value, bar.max, text.textContent, text.getAttribute("aria-live")];
"""


@pytest.fixture
def work(settings: SettingsWrapper) -> str:
    """The address of a page that shows a flow of three messages, and a message."""
    settings.ROOT_URLCONF = "tests.progress.pages"
    with flow("import") as f:
        f.enqueue_many(range(3), queue=QUEUE)
    mail = Message.objects.enqueue("mail", queue="mail")
    return f"/work/{f.id}/{mail.pk}"


def state(page: Page) -> list[Any]:
    found: list[Any] = page.driver.execute_script(STATE)
    return found


def read(page: Page, name: str) -> Any:
    return page.driver.execute_script(f"return window.{name}")


def test_a_bar_moves_by_itself_and_stops_when_its_flow_has_ended(work: str, page: Page) -> None:
    with page.in_every_document(IN_NO_TIME):
        page.open(work)
        assert state(page) == [0, 3, "0 of 3", "off"]
        assert "waiting" in page.text
        claim_one().ack()
        page.see("1 of 3")
        assert state(page)[:2] == [1, 3]
        page.shot("progress")
        page.driver.execute_script(AXE)
        assert findings(page) == []
        claim_one("mail").ack()
        for _ in range(2):
            claim_one().ack()
        page.see("3 of 3, finished")
        page.until(lambda: "waiting" not in page.text, "the end of the waiting")
        assert state(page) == [3, 3, "3 of 3, finished", "polite"]
        assert len(read(page, "waits")) == read(page, "asked"), "nothing is to be asked any more"
        assert set(read(page, "waits")) == {2_000}
        page.shot("progress_finished")
    assert page.complaints() == []


def test_a_server_that_is_away_is_polled_less_often_and_a_link_that_expires_no_more(
    work: str, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> None:
        raise DatabaseError

    Message.objects.get(queue="mail").delete()
    mail = Message.objects.enqueue("mail", queue="mail")
    claim_one("mail").ack()
    with page.in_every_document(IN_NO_TIME):
        with monkeypatch.context() as broken:
            page.open(f"{work.rpartition('/')[0]}/{mail.pk}")
            broken.setattr(progress_view, "how_far", away)
            page.until(lambda: 32_000 in read(page, "waits"), "the fifth failure")
        claim_one().ack()
        page.see("1 of 3")
        waits = read(page, "waits")
        assert sorted({wait for wait in waits if wait < 60_000}) == [2_000, 4_000, 8_000, 16_000, 32_000]
        assert max(waits) <= 60_000
        now = links.time.time()
        monkeypatch.setattr(links.time, "time", lambda: now + 90_000)
        page.see("This link has expired.")
        assert len(read(page, "waits")) == read(page, "asked"), "nothing is to be asked any more"
    assert not [line for line in page.complaints() if "Content Security Policy" in line]
