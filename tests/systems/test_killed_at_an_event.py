"""Killed at any statement of a move, a message has moved and has its event, or has neither (promises P3 and P5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_dbqueue.models import Failure, Message, MessageEvent, Worker
from django_dbqueue.models.fields import DbNow
from tests.factories import QUEUE, dead, held, row
from tests.systems.killed_archiver import MOVES
from tests.systems.kills import End, killed

pytestmark = pytest.mark.django_db(transaction=True)


def _stuck() -> Message:
    message = held()
    Message.objects.filter(pk=message.pk).update(available_at=DbNow())
    return message


def _of_a_worker() -> Message:
    message = held()
    worker, _ = Worker.objects.get_or_create(id=7, defaults={"host": "h", "pid": 1, "queues": QUEUE, "threads": 1})
    Message.objects.filter(pk=message.pk).update(worker_id=worker.pk)
    return message


MADE: dict[str, Callable[[], Message]] = {
    "rescue": _stuck, "requeue": dead, "drop": dead, "send again": dead, "cancel": _of_a_worker,
}  # fmt: skip


@pytest.fixture(params=MOVES)
def verb(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def move_until(verb: str, worker_env: dict[str, str]) -> Iterator[Callable[[int], End]]:
    with killed("tests.systems.killed_archiver", verb, worker_env) as ask:
        yield ask


def _stored(message: Message) -> tuple[dict[str, Any], int]:
    """The row, and how many others there are: what is sent again is another."""
    return row(message), Message.objects.count()


def test_killed_at_any_statement_a_message_has_moved_and_has_its_event_or_neither(
    verb: str, move_until: Callable[[int], End]
) -> None:
    killed_at: list[str] = []
    seen: set[bool] = set()
    while True:
        for model in (Message, Failure):
            model.objects.all().delete()
        message = MADE.get(verb, held)()
        MessageEvent.objects.all().delete()
        before = _stored(message)
        end = move_until(len(killed_at))
        assert not end["failed"], end
        Message.objects.filter(queue=QUEUE).update(priority=0)  # waits until the dead one let go
        moved = _stored(message) != before
        assert MessageEvent.objects.filter(message_id=message.pk).count() == int(moved), end["points"]
        seen.add(moved)
        if not end["killed"]:
            break
        killed_at.append(end["points"][-1])
    assert moved, "the one that nobody killed moved it"
    assert seen == {False, True}
    assert killed_at == end["points"], "each boundary had its kill"
    for when in ("before", "after"):
        assert any(point.startswith(f"{when} INSERT INTO django_dbqueue_messageevent") for point in killed_at)
        assert any(point == f"{when} COMMIT" for point in killed_at)
        assert any(point.startswith(f"{when} UPDATE django_dbqueue_worker") for point in killed_at) is (
            verb == "cancel"
        )
