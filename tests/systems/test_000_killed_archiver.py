"""Killed at any statement of the archiver, each message is in exactly one of the two tables (article 000, P3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from django_dbqueue.models import ArchivedMessage, Message, Mutex
from tests.factories import held, waiting
from tests.systems.kills import End, killed

pytestmark = pytest.mark.django_db(transaction=True)
DONE, DEAD = 4, 2
FINISHED = DONE + DEAD


@pytest.fixture(params=["archive", "purge"])
def archive_until(request: pytest.FixtureRequest, worker_env: dict[str, str]) -> Iterator[Callable[[int], End]]:
    env = worker_env | {"DBQUEUE_TEST_SETTINGS": json.dumps({"DEFAULTS": {"dead_retention": 0}})}
    with killed("tests.systems.killed_archiver", request.param, env) as ask:
        yield ask


def fill() -> set[int]:
    """Empty tables (no mutex either), then finished messages; the ids of these."""
    for model in (Message, ArchivedMessage, Mutex):
        model.objects.all().delete()
    Message.objects.enqueue_many(range(FINISHED), queue="finished")
    messages = Message.objects.claim(FINISHED, queue="finished")
    assert Message.objects.ack(messages[:DONE]) == []
    assert Message.objects.reject(messages[DONE:]) == []
    waiting(queue="waiting")
    held(queue="held")
    return {message.pk for message in messages}


def archived() -> list[int]:
    return list(ArchivedMessage.objects.order_by("message_id").values_list("message_id", flat=True))


def in_the_table() -> list[int]:
    return list(Message.objects.filter(queue="finished").values_list("pk", flat=True))


def test_killed_at_any_statement_each_message_is_in_exactly_one_of_the_two_tables(
    archive_until: Callable[[int], End],
) -> None:
    killed_at: list[str] = []
    moved: set[int] = set()
    while True:
        sent = fill()
        end = archive_until(len(killed_at))
        assert not end["failed"]
        assert sorted(archived() + in_the_table()) == sorted(sent), end["points"]
        assert Message.objects.exclude(queue="finished").count() == 2
        moved.add(len(archived()))
        if not end["killed"]:
            break
        killed_at.append(end["points"][-1])
        Message.objects.all().purge()  # waits for the mutex of the dead until the server lets go of it
        assert (archived(), in_the_table()) == (sorted(sent), []), end["points"]
    assert moved >= {0, FINISHED}
    assert archived() == sorted(sent), "the one that nobody killed moved all"
    assert killed_at == end["points"], "each boundary had its kill"
    _assert_the_whole_way_is_covered(killed_at)


def _assert_the_whole_way_is_covered(points: list[str]) -> None:
    for when in ("before", "after"):
        for statement in (
            "SELECT name FROM django_dbqueue_mutex",
            "INSERT INTO django_dbqueue_mutex",
            "SELECT id FROM django_dbqueue_message",
            "INSERT INTO django_dbqueue_archivedmessage",
            "DELETE",
            "COMMIT",
        ):
            assert any(point.startswith(f"{when} {statement}") for point in points), (when, statement, points)
        begins = [p for p in points if p.startswith((f"{when} BEGIN", f"{when} autocommit False"))]
        assert len(begins) == sum(point == f"{when} COMMIT" for point in points) > 1
