"""What others wrote changes nothing on any page: the same elements, attributes and links as with harmless text."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import Client

from django_dbqueue.models import Message, Queue
from tests.admin.conftest import url
from tests.admin.corpus import CORPUS, SCRIPTS, harmless
from tests.admin.crawl import Skeleton, Visit, crawl, places
from tests.admin.world import fill

pytestmark = pytest.mark.once
OF_EACH_KIND = 3


class _Undone(Exception):
    """Leaves a transaction, and nothing behind."""


def visits_of(client: Client, texts: list[str]) -> list[Visit]:
    """Look at every page of a world with these texts."""
    try:
        with transaction.atomic():
            fill(texts)
            visits = crawl(client, each=OF_EACH_KIND)
            assert {place.path for place in places()} <= {visit.path for visit in visits}
            raise _Undone
    except _Undone:
        return visits


@pytest.mark.django_db
def test_no_text_changes_the_markup_of_any_page(browser: Client) -> None:
    calm = visits_of(browser, [harmless(text) for text in CORPUS])
    wild = visits_of(browser, list(CORPUS))
    assert [visit.kind for visit in wild] == [visit.kind for visit in calm]
    for before, after in zip(calm, wild, strict=True):
        assert after.status == before.status, after.path
        assert after.skeleton.parts == before.skeleton.parts, after.path
    shown = "".join(visit.text for visit in wild)
    assert "&lt;script&gt;pwned()&lt;/script&gt;" in shown
    assert "{{ 7|add:7 }}" in shown


@pytest.mark.django_db
def test_no_reason_changes_the_markup_of_the_page_that_answers(browser: Client) -> None:
    def answer(reason: str) -> list[str]:
        Message.objects.all().delete()
        Queue.objects.all().delete()
        Queue.objects.resume("q")
        page = browser.post(url("pause_many", model="queue"), {"queue": "q/0/", "reason": reason}, follow=True)
        assert page.status_code == 200
        assert Queue.objects.get().is_paused
        message = Message.objects.enqueue(1, queue="q", key="k")
        pin = f"{message.pk}::unclaimed:{message.due_at:%Y%m%d%H%M%S%f}:q"
        dropped = browser.post(url("drop_many"), {"message": pin, "reason": reason}, follow=True)
        log = browser.get(url("history", message.pk))
        assert reason.strip()[:5] in Message.objects.get().error
        return [part for response in (page, dropped, log) for part in Skeleton(response.content.decode()).parts]

    calm = answer("xxxxx")
    for text in SCRIPTS:
        assert answer(text) == calm, text


@pytest.mark.django_db
def test_a_name_that_no_queue_can_have_breaks_no_page(browser: Client) -> None:
    message = Message.objects.enqueue(1, queue="q")
    Message.objects.update(queue="no <i>name")
    for page in (url("changelist"), url("change", message.pk), url("changelist", model="queue")):
        text = browser.get(page).content.decode()
        assert "no &lt;i&gt;name" in text
