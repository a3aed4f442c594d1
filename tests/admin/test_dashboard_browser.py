"""A person at the dashboard: charts that move, a page that says when it is old, by keyboard and in the dark too."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import staleness_of

from django_dbqueue.insight.histogram import Histogram
from django_dbqueue.models import Message, Queue, QueueMinute, Worker
from django_dbqueue.models.fields import clock
from tests.admin.conftest import make_dead, make_done, make_stuck
from tests.insight.passing import begin, ended_in_the_last_minute
from tests.patience import patience

if TYPE_CHECKING:
    from tests.admin.browser import Page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.once]
HOME = "/admin/django_dbqueue/"
CHART = 'figure[data-chart="messages"] canvas'


def fill() -> None:
    """An hour of a busy shop, as its workers have counted it."""
    now = clock("default").replace(second=0, microsecond=0)
    for back in range(60):
        flow = 240 + 40 * (back % 7) - 3 * back + (300 if 20 < back < 26 else 0)
        late = 4 if 20 < back < 26 else 1
        wait, run = Histogram(), Histogram()
        for number in range(flow):
            wait.add(late * (40_000 + 9_000 * (number % 50)))
            run.add(12_000 + 3_000 * (number % 40) + 500 * back)
        failures = {"failures": 25 * (late - 1) + back % 3, "retries": back % 3, "dead": 3 * (late - 1)}
        for queue in ("", "emails"):
            QueueMinute.objects.create(
                queue=queue, minute=now - timedelta(minutes=back), shown=True, messages=flow,
                wait=wait.to_text(), run=run.to_text(), **failures,
            )  # fmt: skip
    make_dead("emails")
    make_stuck("reports.nightly")
    Message.objects.enqueue_many(range(40), queue="emails")
    Message.objects.enqueue_many(range(1_200), queue="thumbnails")
    Message.objects.enqueue({}, queue="emails", delay=5_400)
    held = Message.objects.claim(3, queue="emails")
    beat = clock("default")
    for number in (1, 2):  # the latest beat is the first row
        Worker.objects.create(
            id=number, host=f"worker-{number}", pid=4_710 + number, conn_id=90 + number, threads=4,
            queues="emails,reports.nightly,thumbnails", held=3 * (2 - number), beat_at=beat - timedelta(seconds=number),
        )  # fmt: skip
    Message.objects.filter(pk__in=[message.pk for message in held]).update(worker_id=1)
    Queue.objects.pause("thumbnails", by="ann", reason="the image server is being moved")


def drawn(page: Page) -> Any:
    return page.driver.execute_script(f"return document.querySelector('{CHART}').toDataURL()")


def trouble(page: Page) -> str:
    return str(page.find(".dbqueue-status").text)


def open_dashboard(page: Page) -> None:
    page.log_in()
    page.open(HOME)
    page.find(CHART)


def pause(page: Page) -> None:
    """Press the button without moving the focus."""
    page.driver.execute_script("document.querySelector('.dbqueue-pause').click()")


def test_a_person_sees_the_chart_move_as_messages_finish(page: Page) -> None:
    begin()
    open_dashboard(page)
    before = drawn(page)
    ended_in_the_last_minute(*(make_done("emails") for _ in range(5)))
    page.until(lambda: drawn(page) != before, "another chart")
    page.until(lambda: page.find('tr[data-queue="emails"] [data-figure="out"]').text == "5", "five that ended")
    page.until(lambda: "5" in (page.find(CHART).get_attribute("aria-label") or ""), "five in the chart's label")
    assert page.complaints() == []


LABELS = """
window.labels = new Map();
const before = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  const chart = this.canvas.closest("figure")?.dataset.chart;
  if (chart) window.labels.set(chart, (window.labels.get(chart) || new Set()).add(`${Math.round(rest[1])}: ${text}`));
  return before.call(this, text, ...rest);
};
"""
"""Notes what is written into each chart, and how far down."""
COLOURED = """
return [...document.querySelectorAll("figure[data-chart] canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue, alpha] = data.slice(at, at + 4);
    found += alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
  }
  return found;
});
"""
"""How many pixels of each chart are of a line: all else is grey."""


def ticks(page: Page) -> dict[str, list[str]]:
    """The numbers beside each chart's axis."""
    noted = page.driver.execute_script("return [...window.labels].map(([chart, texts]) => [chart, [...texts]])")
    texts = {chart: [text.partition(": ")[2] for text in found] for chart, found in noted}
    return {chart: [text for text in found if re.fullmatch(r"[\d.,]+( s)?", text)] for chart, found in texts.items()}


def test_after_a_drain_each_chart_shows_it_and_no_axis_has_a_number_twice(
    page: Page, worker_env: dict[str, str]
) -> None:
    watch = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LABELS})
    try:
        open_dashboard(page)
        empty = ticks(page)
        Message.objects.enqueue_many([{"do": "ok"}, {"do": "retry", "after": 0}, {"do": "reject"}], queue="test")
        command = [sys.executable, "-m", "django", "run_queue_worker", "--drain", "--queues", "test"]
        subprocess.run(command, env=worker_env, check=True, timeout=patience(120), capture_output=True)
        page.open(HOME)
        page.find(CHART)
        filled, coloured = ticks(page), page.driver.execute_script(COLOURED)
        page.shot("dashboard-after-a-drain")
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", watch)
    assert len(empty) == len(filled) == 4
    for found in (*empty.values(), *filled.values()):
        assert len(found) >= 2
        assert len(set(found)) == len(found), found
    assert all(coloured), coloured
    assert page.complaints() == []


def test_the_dashboard_matches_its_picture(page: Page) -> None:
    fill()
    open_dashboard(page)
    with page.window(1280, 1260):
        page.picture("dashboard")  # in docs/console.md and docs/index.md
    assert page.find('tr[data-queue="thumbnails"]').text.split("\n")[1] == "by ann: the image server is being moved"
    assert page.complaints() == []


def test_it_is_worked_by_keyboard_alone(page: Page) -> None:
    fill()
    open_dashboard(page)
    page.tab_to('.dbqueue-bar a[href*="span=day"]')
    page.enter()
    assert page.find('.dbqueue-bar a[aria-current="page"]').text == "last day"
    button = page.tab_to(".dbqueue-pause")
    page.press(Keys.SPACE)
    page.until(lambda: trouble(page) == "Refreshing is paused.", "the pause")
    assert (button.text, button.get_attribute("aria-pressed")) == ("Resume refreshing", "true")
    page.press(Keys.SPACE)
    page.until(lambda: trouble(page) == "Refreshing has resumed.", "the end of the pause")
    pause(page)  # so that the walk meets the elements that it set out for
    page.tab_to(".dbqueue-points summary")
    page.press(Keys.SPACE)
    page.until(lambda: page.find(".dbqueue-points table").is_displayed(), "the table of points")


def test_the_focus_and_what_was_opened_outlast_a_refresh(page: Page) -> None:
    fill()
    open_dashboard(page)
    pause(page)
    page.tab_to(".dbqueue-points summary")
    page.press(Keys.SPACE)
    link = page.tab_to('.dbqueue-workers a[href*="/worker/2/"]')
    where = link.get_attribute("href")
    pause(page)  # and goes on
    page.until(lambda: staleness_of(link)(page.driver), "a refresh")
    page.until(lambda: page.driver.switch_to.active_element.get_attribute("href") == where, "the focus where it was")
    page.until(lambda: page.find(".dbqueue-points").get_attribute("open"), "what was opened")


def test_a_page_whose_server_is_away_reports_it_and_then_that_it_is_back(page: Page) -> None:
    fill()
    open_dashboard(page)
    page.driver.execute_cdp_cmd("Network.enable", {})
    away = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", away)
    page.until(lambda: "can’t be reached" in trouble(page), "word of the outage")
    assert page.find(".dbqueue-status").get_attribute("aria-live") == "polite"
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", away | {"offline": False})
    page.until(lambda: trouble(page) == "The server answers again.", "word of its end")


def test_a_page_whose_session_has_ended_reports_it(page: Page) -> None:
    page.log_in()
    page.open(HOME)
    page.driver.delete_all_cookies()
    page.until(lambda: "sign in again" in trouble(page), "word of the session's end")


def test_in_the_dark_the_charts_are_drawn_in_other_colours(page: Page) -> None:
    fill()
    open_dashboard(page)
    page.find(".dbqueue-pause").click()
    bright = drawn(page)
    page.go_dark()
    page.until(lambda: drawn(page) != bright, "other colours")
    page.shot("dark_dashboard")
    assert page.driver.find_element(By.CSS_SELECTOR, ".dbqueue-queues").is_displayed()
