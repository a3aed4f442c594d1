"""What a consuming stream holds, in the admin: whose it is, and that it is stuck when nobody keeps its claim alive."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import Client

from django_dbqueue.models import Message, Stream, StreamClaim
from django_dbqueue.models.fields import DbNow
from tests.admin.conftest import url
from tests.factories import QUEUE, MessageFactory
from tests.streams.conftest import (
    Query,
    query,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_running_and_stuck_messages_of_a_stream_are_listed_with_the_stream_and_the_claim(
    browser: Client,
    query: Callable[..., Query],  # noqa: F811
) -> None:
    message = MessageFactory()
    query().next()
    page = browser.get(url("changelist"), {"state": "running"}).content.decode()
    assert "stream s, claim 1" in page
    assert re.search(r"lease expires in (\d+ s|1 min)", page)
    assert browser.get(url("changelist"), {"state": "stuck"}).context["cl"].result_list == []
    StreamClaim.objects.update(lease_until=DbNow())
    page = browser.get(url("changelist")).content.decode()  # opens with what is stuck
    assert "stream s, claim 1" in page
    assert "lease expired" in page
    for view in ("change", "requeue"):
        text = browser.get(url(view, message.pk)).content.decode()
        assert 'dbqueue-stuck"' in text
    assert browser.get(url("changelist"), {"state": "running"}).context["cl"].result_list == []


def test_queue_peek_shows_it_stuck(
    query: Callable[..., Query],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = MessageFactory()
    query().next()
    StreamClaim.objects.update(lease_until=DbNow())
    call_command("queue_peek", QUEUE, "--state", "stuck")
    shown = capsys.readouterr().out
    assert f"#{message.pk}  stuck  lease until 2" in shown


def test_a_piece_of_a_claim_that_was_split_is_named_by_its_own_number(
    query: Callable[..., Query],  # noqa: F811
) -> None:
    MessageFactory.create_batch(16)
    for _ in range(3):
        one = query()
        one.next()
        one.read(1)
        one.die()
    messages = list(Message.objects.order_by("pk"))
    StreamClaim.objects.join(messages)
    assert [message.stream_claim.number for message in messages if message.stream_claim] == list(range(1, 17))


def test_the_page_shows_that_a_stream_holds_it_and_whether_its_query_runs(
    browser: Client,
    query: Callable[..., Query],  # noqa: F811
) -> None:
    message = MessageFactory()
    query().next()
    page = browser.get(url("change", message.pk)).content.decode()
    assert 'data-why="stream"' in page
    assert "stream s, claim 1" in page
    assert "A query is running the stream." in page
    StreamClaim.objects.update(lease_until=DbNow())
    page = browser.get(url("change", message.pk)).content.decode()
    assert 'data-why="stream_over"' in page


def test_a_stream_whose_query_ended_is_to_be_started_again_or_released(
    browser: Client,
    query: Callable[..., Query],  # noqa: F811
) -> None:
    message = MessageFactory()
    one = query()
    one.next()
    one.connection.close()
    Stream.objects.update(beat_at=DbNow() - timedelta(minutes=2))
    page = browser.get(url("change", message.pk)).content.decode()
    assert 'data-why="stream"' in page
    assert "No query is running the stream." in page
    assert "queue_pipeline release --stream s" in page
