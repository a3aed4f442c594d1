"""The pages of what the pipeline keeps here: they show how it stands, read little, and change nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_dbqueue.admin.bounded_lists import LIST_CAP
from django_dbqueue.models import (
    ArchivedMessage,
    ExportBatch,
    HistoryReader,
    Message,
    Stream,
    StreamClaim,
    StreamProgress,
)
from django_dbqueue.models.fields import DbNow
from tests.admin.conftest import url
from tests.factories import MessageFactory, done
from tests.streams.conftest import (
    Query,
    query,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.django_db(transaction=True)
MODELS = ("stream", "streamclaim", "historyreader", "exportbatch")
LONG, LONG_TEXT = timedelta(days=2, hours=3), "2 d 3 h"
"""Told in its two largest units: for an hour, as a minute would be for a second."""


def row(page: Any) -> Any:
    """The only row of a list, with what the page knows of it."""
    [only] = page.context["cl"].result_list
    return only


def text_of(browser: Client, model: str, view: str = "changelist", *args: Any, **filters: str) -> str:
    page = browser.get(url(view, *args, model=model), filters)
    assert page.status_code == 200
    return page.content.decode()


def batch(number: int, *, lake: str = "s3://lake/a", **fields: Any) -> ExportBatch:
    fields = {"first_id": number * 10 + 1, "last_id": number * 10 + 10, "rows": 10, "state": "verified"} | fields
    return ExportBatch.objects.create(lake=lake, number=number, **fields)


def test_a_stream_that_runs_is_shown_so_with_what_it_holds(
    browser: Client,
    query: Callable[..., Query],  # noqa: F811
) -> None:
    MessageFactory.create_batch(3)
    running = query()
    running.next()
    page = browser.get(url("changelist", model="stream"))
    assert row(page).is_run
    assert str(row(page).left) == "0"
    assert (row(page).ledger["id__count"], row(page).ledger["messages__sum"]) == (1, 3)
    assert re.search(r"expires in (\d+ s|1 min)", text_of(browser, "stream", "change", "s"))
    running.die()
    MessageFactory()
    page = browser.get(url("changelist", model="stream"))
    assert not row(page).is_run
    assert str(row(page).left) == "1", "a query that is gone leaves more from moment to moment"
    assert "not running" in page.content.decode()
    StreamClaim.objects.update(lease_until=DbNow() - LONG)
    text = text_of(browser, "stream", "change", "s")
    assert f"expired {LONG_TEXT} ago" in text
    assert "not running" in text


def test_claims_are_shown_with_their_state_and_their_ids(
    browser: Client,
    query: Callable[..., Query],  # noqa: F811
) -> None:
    first, second = MessageFactory(), MessageFactory()
    one = query()
    one.commit(one.next(1))
    one.next(1)
    text = text_of(browser, "streamclaim")
    assert text.index("s #2") < text.index("s #1"), "the newest comes first"
    assert 'dbqueue-running"' in text
    assert 'dbqueue-done"' in text
    claim = StreamClaim.objects.get(number=2)
    assert f">{second.pk}</pre>" in text_of(browser, "streamclaim", "change", claim.pk)
    assert Message.objects.get(pk=first.pk).status == "y"


def test_a_search_finds_the_claims_of_one_stream_by_its_whole_name(browser: Client) -> None:
    for stream in ("a", "b"):
        for number in (1, 2):
            StreamClaim.objects.create(
                stream=stream, number=number, queue="q", claim_token=5, state="open", ids="1-9", messages=9,
                lease_until=DbNow(),
            )  # fmt: skip
    assert [claim.number for claim in _listed(browser, "streamclaim", q="a")] == [2, 1]
    for nothing in ("A", "a ", "ü", "a%"):
        found = _listed(browser, "streamclaim", q=nothing)
        assert [claim.stream for claim in found] == (["a", "a"] if nothing == "a " else []), nothing


def test_a_claim_whose_ids_somebody_wrote_by_sql_is_shown_as_it_is(browser: Client) -> None:
    claim = StreamClaim.objects.create(
        stream="s", number=1, queue="q", claim_token=5, state="odd", ids="<b>x</b>", messages=9, lease_until=DbNow()
    )
    text = text_of(browser, "streamclaim", "change", claim.pk)
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert "odd" in text


def test_a_reader_shows_how_far_behind_the_end_of_the_history_it_is(browser: Client) -> None:
    for _ in range(3):
        done()
    Message.objects.archive(older_than=0)
    ids = list(ArchivedMessage.objects.order_by("pk").values_list("pk", flat=True))
    HistoryReader.objects.create(name="warehouse", position=ids[0], seen_at=DbNow() - LONG)
    page = browser.get(url("changelist", model="historyreader"))
    assert row(page).ids_behind == ids[2] - ids[0]
    assert f"{LONG_TEXT} ago" in page.content.decode()
    HistoryReader.objects.update(position=ids[2] + 9)
    assert row(browser.get(url("changelist", model="historyreader"))).ids_behind == 0
    assert "warehouse" in text_of(browser, "historyreader", "change", "warehouse")


def test_what_a_listener_has_recorded_is_shown_with_its_stream_and_its_reader(browser: Client) -> None:
    Stream.objects.create(name="s", queue="q", on_expired="hold", lease_seconds=60)
    HistoryReader.objects.create(name="warehouse", position=1)
    for model, name in (("stream", "s"), ("historyreader", "warehouse")):
        assert row(browser.get(url("changelist", model=model))).progress is None
        prefix = "stream:" if model == "stream" else "reader:"
        StreamProgress.objects.create(
            name=prefix + name, query_id="q", messages=12_345, rate=678.9, backlog=100_000, backlog_capped=1,
            failures=2, progressed_at=DbNow() - LONG, failed_at=DbNow() - timedelta(hours=5),
            error="ValueError: <b>no</b>",
        )  # fmt: skip
        text = text_of(browser, model)
        assert all(words in text for words in ("679", f"{LONG_TEXT} ago", "5 h ago", "dbqueue-dead"))
        detail = text_of(browser, model, "change", name)
        assert "12,345" in detail
        assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in detail
        StreamProgress.objects.update(progressed_at=DbNow())
        assert "dbqueue-dead" not in text_of(browser, model)


def test_exports_are_listed_newest_first_with_their_states_and_found_by_their_lake(browser: Client) -> None:
    for number, state in enumerate(("purged", "dropped", "verified", "planned", "odd")):
        batch(number, state=state)
    other = batch(1, lake="Örtlich 100%")
    text = text_of(browser, "exportbatch")
    assert text.index("Örtlich 100% #1") < text.index("s3://lake/a #4") < text.index("s3://lake/a #0")
    for words in ("verified, and purged here", "abandoned", "planned", "odd"):
        assert words in text
    assert _listed(browser, "exportbatch", q="Örtlich 100%") == [other]
    assert [each.number for each in _listed(browser, "exportbatch", q="s3://lake/a")] == [4, 3, 2, 1, 0]
    assert "Örtlich 100%" in text_of(browser, "exportbatch", "change", other.pk)


def test_a_list_walks_to_its_cap_and_no_further_and_counts_nothing(browser: Client) -> None:
    ExportBatch.objects.bulk_create(
        ExportBatch(lake="l", number=number, first_id=1, last_id=2, rows=2, state="verified")
        for number in range(LIST_CAP + 20)
    )
    with CaptureQueriesContext(connection) as queries:
        page = browser.get(url("changelist", model="exportbatch"))
    assert not [each["sql"] for each in queries if "COUNT(" in each["sql"]]
    assert f"Only the first {LIST_CAP} are listed" in page.content.decode()
    assert [each.number for each in page.context["cl"].result_list] == [LIST_CAP + 19 - at for at in range(50)]
    assert _listed(browser, "exportbatch", p=str(LIST_CAP // 50))[-1].number == 20


@pytest.mark.parametrize("model", MODELS)
def test_an_empty_list_reports_it_and_takes_the_models_own_permission(
    model: str, browser: Client, client_with: Callable[..., Client]
) -> None:
    assert "There is nothing here" in text_of(browser, model)
    assert client_with(f"view_{model}").get(url("changelist", model=model)).status_code == 200
    assert client_with("view_message").get(url("changelist", model=model)).status_code == 403


def test_none_of_them_can_be_changed(browser: Client) -> None:
    rows = {
        "stream": Stream.objects.create(name="s", queue="q", on_expired="hold", lease_seconds=60),
        "historyreader": HistoryReader.objects.create(name="r", position=1),
        "exportbatch": batch(1),
    }
    for model, one in rows.items():
        for view, arguments in (("add", ()), ("change", (one.pk,)), ("delete", (one.pk,))):
            assert browser.post(url(view, *arguments, model=model), {"name": "x", "post": "yes"}).status_code == 403
        assert type(one).objects.get(pk=one.pk) == one


def _listed(browser: Client, model: str, **filters: str) -> list[Any]:
    return list(browser.get(url("changelist", model=model), filters).context["cl"].result_list)
