"""Until it expires, a signed link shows the progress of one flow or message, and nothing else."""

from __future__ import annotations

import base64
import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signing import Signer
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from django_dbqueue import flow, progress_token, progress_url
from django_dbqueue.flows import flow_progress
from django_dbqueue.models import ArchivedMessage, Flow, FlowPart, Message
from django_dbqueue.progress import links
from tests.factories import QUEUE, claim_one, dead, done, held, stuck, waiting

pytestmark = pytest.mark.django_db(transaction=True)


def poll(url: str) -> dict[str, Any]:
    answer = Client().get(url)
    assert answer.status_code == 200, answer.content
    assert answer.headers["Cache-Control"] == "no-store"
    found: dict[str, Any] = answer.json()
    return found


def refused(url: str) -> tuple[int, str]:
    answer = Client().get(url)
    return answer.status_code, answer.json()["error"]


def of_four() -> Flow:
    with flow("a secret name") as f:
        parts = f.enqueue_many([{"card": "4111"}] * 3, queue=QUEUE)
        f.enqueue("last", queue=QUEUE, after=parts)
    return Flow.objects.get(pk=f.id)


def test_a_link_shows_how_far_a_flow_is() -> None:
    found = of_four()
    Flow.objects.filter(pk=found.pk).update(created_at=found.created_at - timedelta(seconds=600))
    url = progress_url(found)
    first = poll(url)
    assert first == {
        "finished": 0, "dead": 0, "left": 4, "total": 4, "exact": True, "over": False, "eta": None, "poll": 30.0,
        "text": "0 of 4",
    }  # fmt: skip
    claim_one().ack()
    second = poll(url)
    assert (second["finished"], second["left"]) == (1, 3)
    assert re.fullmatch(r"1 of 4, about 3\d min( \d+ s)? left", second["text"])
    assert second["eta"] == pytest.approx(1800, abs=60)
    claim_one().reject("no")
    third = poll(url)
    assert (third["dead"], third["eta"], third["over"]) == (1, None, False)
    assert third["text"] == "1 of 4, 1 has failed"
    Message.objects.dead().requeue()
    for _ in range(3):
        claim_one().ack()
    last = poll(url)
    assert (last["finished"], last["left"], last["over"], last["poll"]) == (4, 0, True, None)
    assert last["text"] == "4 of 4, finished"


def test_what_has_ended_with_dead_messages_shows_how_many_failed() -> None:
    with flow("f") as f:
        parts = f.enqueue_many(range(2), queue=QUEUE)
        f.enqueue("alert", queue=QUEUE, after=parts, when="dead")
    claim_one().ack()
    claim_one().reject("no")
    claim_one().ack()
    seen = poll(progress_url(Flow.objects.get(pk=f.id)))
    assert (seen["finished"], seen["dead"], seen["over"], seen["poll"]) == (2, 1, True, None)
    assert seen["text"] == "2 of 3, 1 has failed"


def test_neither_the_link_nor_the_answer_has_a_name_or_a_payload() -> None:
    found = of_four()
    token = progress_token(found)
    content = base64.urlsafe_b64decode(token.partition(":")[0] + "==").decode()
    for text in (token, content, Client().get(progress_url(found)).content.decode()):
        for secret in ("secret", "4111", QUEUE, "default"):
            assert secret not in text
    assert str(found.pk) in content


@pytest.mark.parametrize(
    ("make", "text", "over"),
    [(waiting, "waiting", False), (held, "running", False), (stuck, "running", False), (done, "finished", True),
     (dead, "failed", True)],
)  # fmt: skip
def test_a_link_shows_the_state_of_a_message(make: Any, text: str, over: bool) -> None:
    message = make()
    url = progress_url(message)
    seen = poll(url)
    assert (seen["text"], seen["over"], seen["total"]) == (text, over, 1)
    assert (seen["finished"], seen["dead"]) == (int(text == "finished"), int(text == "failed"))
    if over:
        ended = getattr(Message.objects, "dead" if make is dead else "done")()
        assert ended.count() == 1
        assert ended.purge() == 1 if make is dead else Message.objects.archive(QUEUE, older_than=0)
        assert not Message.objects.exists()
        assert ArchivedMessage.objects.count() == 1
        assert poll(url)["text"] == text, "the history knows it"
        ArchivedMessage.objects.all().delete()
        assert refused(url)[0] == 404


def test_a_message_that_was_dropped_is_cancelled() -> None:
    url = progress_url(message := waiting())
    Message.objects.filter(pk=message.pk).drop_all("not wanted")
    assert (poll(url)["text"], poll(url)["finished"], poll(url)["over"]) == ("cancelled", 1, True)
    Message.objects.archive(QUEUE, older_than=0)
    assert poll(url)["text"] == "cancelled"


@override_settings(DBQUEUE={"QUEUES": {QUEUE: {"on_ack": "delete"}}})
def test_of_a_queue_that_deletes_what_is_acked_what_is_gone_has_finished() -> None:
    message = held()
    url = progress_url(message)
    message.ack()
    assert not Message.objects.exists()
    assert poll(url)["text"] == "finished"


def test_a_link_can_be_made_before_the_flow_commits_and_shows_nothing_if_it_never_does() -> None:
    with flow("f") as f:
        f.enqueue(1, queue=QUEUE)
        url = progress_url(f)
    assert poll(url)["total"] == 1

    class Stop(Exception):
        pass

    def lose() -> str:
        nonlocal url
        with flow("lost") as f:
            f.enqueue(1, queue=QUEUE)
            url = progress_url(f)
            raise Stop

    with pytest.raises(Stop):
        lose()
    assert refused(url)[0] == 404


def test_a_link_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_four()
    url = progress_url(found, expires_in=timedelta(hours=2))
    now = time.time()
    monkeypatch.setattr(links.time, "time", lambda: now + 7_190)
    assert poll(url)["total"] == 4
    monkeypatch.setattr(links.time, "time", lambda: now + 7_202)
    assert refused(url)[0] == 403


@pytest.mark.parametrize("expires_in", [0, -1, True, timedelta(0), float("inf"), 10**400, float("nan"), "60", None])
def test_a_link_that_could_never_be_used_is_refused(expires_in: Any) -> None:
    found = of_four()
    with pytest.raises(ValueError, match="must be a positive number of seconds, or a timedelta, not"):
        progress_token(found, expires_in=expires_in)


@pytest.mark.parametrize("subject", [None, "", 17, Flow(name="unsaved"), "#17"])
def test_what_has_no_progress_is_refused(subject: Any) -> None:
    with pytest.raises(TypeError, match="There is progress of a flow or a message that was enqueued, not of"):
        progress_url(subject)


def test_a_link_that_was_tampered_with_shows_nothing() -> None:
    mine, other = of_four(), of_four()
    token = progress_token(mine)
    body, _, signature = token.partition(":")
    others_body = progress_token(other).partition(":")[0]
    assert poll(f"/progress/{token}")["total"] == 4
    forged = [
        f"{others_body}:{signature}",
        f"{body}:{signature[:-1]}{'A' if signature[-1] != 'A' else 'B'}",
        f"{body}:",
        body,
        signature,
        f"{token}:x",
        token.upper(),
        "x",
        "%00",
        "ключ:подпись",
        Signer(salt="another").sign_object(["f", mine.pk, int(time.time()) + 60]),
        Signer(key="another", salt=links.SALT).sign_object(["f", mine.pk, int(time.time()) + 60]),
        Signer(salt=links.SALT).sign_object(["f", mine.pk, int(time.time()) + 60, "no such database"]),
    ]
    for each in forged:
        assert refused(f"/progress/{each}")[0] == 404, each


def test_a_key_that_was_replaced_still_opens_links_while_it_is_a_fallback() -> None:
    with override_settings(SECRET_KEY="old"):
        url = progress_url(of_four())
    assert refused(url)[0] == 404
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"]):
        assert poll(url)["total"] == 4


def test_it_needs_no_login_and_reads_no_session() -> None:
    url = progress_url(of_four())
    login_everywhere = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, login_everywhere]):
        assert Client().get("/members").status_code == 302
        assert poll(url)["total"] == 4
    with CaptureQueriesContext(connection) as made:
        answer = Client().get(url)
    assert "Cookie" not in answer.headers.get("Vary", "")
    assert not answer.cookies
    assert len(made) <= 5, [query["sql"] for query in made]


def test_only_get_and_head_are_answered() -> None:
    url = progress_url(of_four())
    answer = Client().post(url)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert Client().head(url).status_code == 200


def test_the_text_is_in_the_readers_language() -> None:
    found = of_four()
    claim_one().ack()
    claim_one().reject("no")
    with translation.override("de"):
        assert poll(progress_url(found))["text"] == "1 von 4, 1 ist fehlgeschlagen"


@override_settings(ROOT_URLCONF="tests.progress.without_place")
def test_a_project_without_a_place_for_links_learns_what_to_add() -> None:
    with pytest.raises(ImproperlyConfigured, match=r'add path\("progress/", include\("django_dbqueue.urls"\)\)'):
        progress_url(of_four())


def test_a_database_that_is_away_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    url = progress_url(of_four())
    monkeypatch.setattr(Flow._meta, "db_table", "no_such_table")
    status, error = refused(url)
    assert status == 503
    assert "can't be read now" in error


def large(number: int, *, parts: int = 1) -> Flow:
    with flow("large") as f:
        for _ in range(parts):
            f.enqueue_many(range(number // parts), queue=QUEUE)
            Message.objects.enqueue_many(range(150), queue="others")  # further away than one range reaches
    return Flow.objects.get(pk=f.id)


@pytest.mark.parametrize("parts", [1, 7])
def test_of_a_large_flow_a_sample_is_counted(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(flow_progress, "SHOWN", 200)
    monkeypatch.setattr(flow_progress, "WINDOWS", 50)
    monkeypatch.setattr(flow_progress, "WIDTH", 4)
    found = large(2_100, parts=parts)
    url = progress_url(found)
    assert (poll(url)["finished"], poll(url)["exact"]) == (0, False)
    messages = Message.objects.claim(1_000, queue=QUEUE)
    assert Message.objects.ack(messages[:700]) == []
    seen = poll(url)
    assert seen["finished"] == pytest.approx(700, abs=60)
    assert seen["text"].startswith("about ")
    Message.objects.archive(QUEUE, older_than=0)
    assert poll(url)["finished"] == seen["finished"], "what was archived has finished"
    Message.objects.ack(messages[700:])
    while messages := Message.objects.claim(500, queue=QUEUE):
        last = messages.pop() if not Message.objects.ready(QUEUE).exists() else None
        Message.objects.ack(messages)
    assert last is not None
    seen = poll(url)
    assert (seen["finished"], seen["left"], seen["over"]) in [(2_099, 1, False), (2_058, 42, False), (2_089, 11, False)]
    last.ack()
    seen = poll(url)
    assert (seen["finished"], seen["over"]) == (2_100, True)


def test_a_link_to_a_large_flow_reads_no_more_rows_than_a_sample_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_progress, "SHOWN", 200)
    monkeypatch.setattr(flow_progress, "WIDTH", 4)
    found = large(2_000)
    ranges = [(part.first_id, part.last_id) for part in FlowPart.objects.filter(flow=found.pk).order_by("first_id")]
    windows = flow_progress._sample(ranges)
    assert len(windows) == 50
    assert sum(last - first + 1 for first, last in windows) == 200
    assert (windows[0][0], windows[-1][1]) == (ranges[0][0], ranges[-1][1] - 36)
