"""Archivers, rescues and operators pass by what the server refuses to change, name it, and go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_dbqueue.lifecycle import archive as archive_module
from django_dbqueue.lifecycle import rescue
from django_dbqueue.models import ArchivedMessage, Message
from django_dbqueue.operations import bulk
from django_dbqueue.operations.mover import move_page
from django_dbqueue.operations.verbs import VERBS
from django_dbqueue.sessions.django_session import DjangoSession, session_of
from django_dbqueue.worker.maintenance import Maintenance
from tests.factories import QUEUE, dead, done, held_many, let_end
from tests.refusing import pointing_at, refusing

pytestmark = pytest.mark.django_db(transaction=True)


def done_ones(number: int = 7) -> list[Message]:
    messages = held_many(number)
    assert Message.objects.ack(messages) == []
    return messages


def there() -> set[int]:
    return set(Message.objects.values_list("pk", flat=True))


def named(caplog: pytest.LogCaptureFixture, message: Message) -> int:
    return sum(f"message {message.pk} " in record.getMessage() for record in caplog.get_records("call"))


@pytest.fixture
def session() -> DjangoSession:
    return DjangoSession("default")


@pytest.fixture(params=[2, 500])
def small_batches(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(archive_module, "BATCH", request.param)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("at", [(0,), (3,), (6,), (0, 1, 2, 3), (1, 6)])
def test_the_archive_passes_by_what_something_points_to(at: tuple[int, ...], caplog: pytest.LogCaptureFixture) -> None:
    messages = done_ones()
    held_back = [messages[one] for one in at]
    with pointing_at(*held_back):
        assert Message.objects.archive(QUEUE, older_than=0) == 7 - len(at)
        assert there() == {each.pk for each in held_back}
        assert Message.objects.archive(QUEUE, older_than=0, limit=3) == 0
    assert all(named(caplog, each) for each in held_back)
    assert ArchivedMessage.objects.count() == 7 - len(at)
    assert Message.objects.archive(QUEUE, older_than=0) == len(at)


@pytest.mark.usefixtures("small_batches")
def test_a_walk_goes_on_behind_what_it_had_to_leave_and_names_it_once(
    session: DjangoSession, caplog: pytest.LogCaptureFixture
) -> None:
    messages = done_ones()
    walk = archive_module.DoneWalk(session, QUEUE)
    with pointing_at(*messages[:4]):
        moved = [walk.archive(age=0, most_rows=2, wait=False) for _ in range(5)]
        assert there() == {each.pk for each in messages[:4]}
        assert sum(moved) == 3
        assert walk.archive(age=0, wait=False) == walk.archive(age=0, wait=False) == 0
    assert [named(caplog, each) for each in messages] == [1] * 4 + [0] * 3


def test_a_purge_and_the_archive_of_dead_ones_pass_it_by(
    session: DjangoSession, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [dead() for _ in range(3)] + [done() for _ in range(3)]
    with refusing("DELETE", f"OLD.id IN ({messages[1].pk}, {messages[5].pk})"):
        assert archive_module.DeadWalk(session, QUEUE).archive(age=0) == 2
        assert Message.objects.all().purge() == 2
        assert there() == {messages[1].pk, messages[5].pk}
    assert named(caplog, messages[1])
    assert named(caplog, messages[5])


if settings.TEST_DATABASE != "sqlite":  # there no CHECK can be added to a table

    def test_a_row_that_the_history_refuses_is_passed_by_as_well() -> None:
        messages = done_ones(3)
        table, name = "django_dbqueue_archivedmessage", "tests_refuse"
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK (message_id <> {messages[1].pk})")
            try:
                assert Message.objects.archive(QUEUE, older_than=0) == 2
            finally:
                cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        assert there() == {messages[1].pk}


def test_a_worker_goes_on_with_what_else_is_to_be_tidied(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.DBQUEUE = {"DEFAULTS": {"retention": 0}}
    messages = done_ones(3)
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    with pointing_at(messages[0]):
        maintenance._tidy()
        assert there() == {messages[0].pk}


def test_a_rescue_passes_by_what_it_may_not_move(caplog: pytest.LogCaptureFixture, session: DjangoSession) -> None:
    messages = held_many(4)
    let_end(*messages)
    with refusing("UPDATE", f"OLD.id = {messages[2].pk}"):
        assert rescue.rescue(Message, session, [QUEUE]) == 3
        assert rescue.rescue(Message, session, [QUEUE]) == 0
        assert [each.pk for each in Message.objects.stuck(QUEUE)] == [messages[2].pk]
    assert named(caplog, messages[2]) == 1
    assert rescue.rescue(Message, session, [QUEUE]) == 1


@pytest.fixture
def refused(caplog: pytest.LogCaptureFixture) -> Iterator[list[Message]]:
    """Dead messages; the server refuses to change the second one."""
    messages = [dead() for _ in range(4)]
    with refusing("UPDATE", f"OLD.id = {messages[1].pk}"):
        yield messages
    assert [each.pk for each in Message.objects.dead(QUEUE)] == [messages[1].pk]
    assert named(caplog, messages[1])


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("verb", ["requeue", "drop", "move"])
def test_a_sweep_leaves_it_alone(session: DjangoSession, verb: Any) -> None:
    selection = bulk.Selection.now(session, state="dead", queue=QUEUE)
    step = move_page(Message, session, VERBS[verb].ordered("ann", "as told", "other"), selection, "")
    assert (list(step.moved.values()), len(step.left)) == ([QUEUE] * 3, 1)


@pytest.mark.usefixtures("refused")
def test_a_bulk_operation_leaves_it_alone(session: DjangoSession) -> None:
    selection = bulk.Selection.now(session, state="dead", queue=QUEUE)
    with session.transaction():
        step = move_page(Message, session, VERBS["drop"].ordered("ann", "as told"), selection, "")
    assert (len(step.moved), len(step.left)) == (3, 1)


def test_an_operator_learns_of_it_by_its_id(refused: list[Message]) -> None:
    changed = Message.objects.dead(QUEUE).requeue()
    assert changed == 3
    [conflict] = changed.conflicts
    assert f"message {refused[1].pk}: the database refused the change" in str(conflict)


if settings.TEST_DATABASE in ("mariadb", "mysql"):  # only they have safe updates

    @pytest.mark.parametrize("switched", ["on by the project", "off for the queue"])
    def test_a_session_with_safe_updates_archives_purges_and_deletes(
        session: DjangoSession, settings: Any, switched: str
    ) -> None:
        settings.DBQUEUE = {"QUEUES": {QUEUE: {"on_ack": "delete"}}}
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_safe_updates = 1")
            if switched.startswith("off"):
                session.allow_updates()
            try:
                messages = held_many(5)
                assert Message.objects.ack(messages[:3]) == []
                messages[3].ack()
                messages[4].reject("unwanted")
                dead()
                assert Message.objects.filter(pk=messages[4].pk).purge() == 1
                assert Message.objects.archive(QUEUE, older_than=0) == 0
                assert archive_module.DeadWalk(session, QUEUE).archive(age=0) == 1
                assert there() == set()
                cursor.execute("SELECT @@SESSION.sql_safe_updates")
                assert cursor.fetchone() == (int(switched.startswith("on")),)
            finally:
                cursor.execute("SET SESSION sql_safe_updates = 0")
