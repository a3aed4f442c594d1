"""``manage.py queue_purge``: what ended long enough ago goes into the history, and nothing is lost."""

from __future__ import annotations

import logging

import pytest

from django_dbqueue.lifecycle import archive
from django_dbqueue.models import ArchivedMessage, Message
from tests.commands.running import Ended, run
from tests.factories import QUEUE, dead, done, held_many, let_pass, rows, waiting

pytestmark = pytest.mark.django_db
DAY = 86_400


def purge(*arguments: str) -> Ended:
    return run("queue_purge", *arguments)


def old(message: Message, days: float = 8) -> Message:
    let_pass(message, days * DAY)
    return message


def archived() -> list[int]:
    return sorted(ArchivedMessage.objects.values_list("message_id", flat=True))


def test_done_messages_that_are_old_enough_go_into_the_history() -> None:
    moved, young = old(done()), old(done(), 6)
    buried, other = old(dead()), old(done(queue="other"))
    ended = purge(QUEUE, "--older-than", "7d", "--yes")
    assert (ended.code, ended.out[:10], ended.err) == (0, "1 message ", "")
    assert archived() == [moved.pk]
    assert sorted(Message.objects.values_list("pk", flat=True)) == sorted([young.pk, buried.pk, other.pk])


def test_dead_ones_go_too_if_that_is_requested() -> None:
    moved = [old(done()).pk, old(dead()).pk, old(dead(priority=5)).pk]
    waiting_still, young = old(waiting(delay=60 * DAY)), dead(priority=9)
    document = purge(QUEUE, "--older-than", "1w", "--dead", "--yes", "--json").document
    assert document == {
        "queue": QUEUE,
        "dry_run": False,
        "moved": 3,
        "done": 1,
        "dead": 2,
        "interrupted": False,
    }
    assert archived() == sorted(moved)
    assert sorted(ArchivedMessage.objects.values_list("outcome", flat=True)) == ["dead", "dead", "done"]
    assert {message.pk for message in Message.objects.all()} == {waiting_still.pk, young.pk}


def test_many_go_in_steps_and_a_limit_holds_for_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_dbqueue.management.commands.queue_purge.BATCH", 3)
    Message.objects.ack(held_many(7))
    Message.objects.reject(held_many(5), "unwanted")
    arguments = (QUEUE, "--older-than", "0", "--dead", "--yes", "--json")
    document = purge(*arguments, "--limit", "9").document
    assert (document["moved"], document["done"], document["dead"]) == (9, 7, 2)
    assert purge(*arguments).document["moved"] == 3
    assert len(archived()) == 12
    assert Message.objects.count() == 0


def test_a_dry_run_counts_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "BATCH", 2)
    for _ in range(3):
        old(done())
        old(dead())
    done()
    dead()
    before = rows()
    dry = (QUEUE, "--older-than", "7d", "--dry-run")
    assert purge(*dry).out.startswith("3 would be moved")
    assert purge(*dry, "--dead", "--json").document == {
        "queue": QUEUE,
        "dry_run": True,
        "count": 6,
        "done": 3,
        "dead": 3,
    }
    assert purge(*dry, "--dead", "--limit", "4").out.startswith("4 would be moved")
    assert rows() == before
    assert archived() == []


def test_nothing_that_old_is_an_exit_code_and_a_sentence() -> None:
    done()
    for queue in (QUEUE, "nobody"):
        dry = purge(queue, "--older-than", "7d", "--dry-run")
        assert (dry.code, dry.out) == (3, "")
        assert f"Queue '{queue}' has no" in dry.err
        assert purge(queue, "--older-than", "7d", "--yes").code == 3


def test_nothing_is_moved_without_a_terminal() -> None:
    old(done())
    ended = purge(QUEUE, "--older-than", "7d")
    assert (ended.code, ended.out, "Add --yes" in ended.err) == (2, "", True)
    assert archived() == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([QUEUE], "--older-than"),
        (["no queue", "--older-than", "7d"], "'no queue' is not a queue name"),
        ([QUEUE, "--older-than", "7y"], "'7y' is not an age"),
        ([QUEUE, "--older-than", ""], "'' is not an age"),
        ([QUEUE, "--older-than", "d"], "'d' is not an age"),
        ([QUEUE, "--older-than=-7d"], "'-7d' is not an age"),
        ([QUEUE, "--older-than", "nan"], "'nan' is not an age"),
        ([QUEUE, "--older-than", "infw"], "'infw' is not an age"),
        ([QUEUE, "--older-than", "7d", "--limit", "0"], "'0' is not a whole number"),
        ([QUEUE, "--older-than", "7d", "--database", "gone"], "no database 'gone'"),
    ],
)
def test_a_wrong_order_is_refused_by_name(arguments: list[str], error: str) -> None:
    old(done())
    ended = purge(*arguments, "--yes")
    assert (ended.code != 0, ended.out) == (True, "")
    assert error in ended.err
    assert archived() == []


def test_it_is_logged_with_who_and_how_many(caplog: pytest.LogCaptureFixture) -> None:
    old(done())
    with caplog.at_level(logging.INFO, "django_dbqueue"):
        purge(QUEUE, "--older-than", "7d", "--yes", "--by", "ann")
        purge(QUEUE, "--older-than", "7d", "--yes", "--by", "ann")
    logged = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "operator"]
    assert logged == [f"purge by ann: 1 message of {QUEUE}"]
