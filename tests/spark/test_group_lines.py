"""Messages of groups that a job writes, without Spark: in lines with their commit, and a group goes on after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.conf import settings

from django_dbqueue import flow
from django_dbqueue.envelope import Envelope, Sealed, seal
from django_dbqueue.exceptions import DatabaseAway
from django_dbqueue.keys import lane_of
from django_dbqueue.management.spark_settings import credentials_of
from django_dbqueue.models import Group, Line, Message, StagedMessage, Ticket
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.spark import group_lines, publication, staging_sql, write_tasks
from django_dbqueue.spark.connection import Connection
from django_dbqueue.spark.lasting import Lasting
from django_dbqueue.spark.publication import Published, TaskAttempt
from django_dbqueue.worker.keepers import Keepers
from tests.spark.staging import QUEUE, connect, number, stage

pytestmark = pytest.mark.django_db(transaction=True)


def publish(*attempts: TaskAttempt, run: int, job: str = "job") -> Published:
    return publication.publish(credentials_of("default"), job=job, run=run, attempts=attempts, outage=0)


def grouped(payloads: Iterable[Any], group: str | None = "a", **options: Any) -> list[Envelope]:
    return [Envelope(payload, group=group, **options) for payload in payloads]


def drained() -> list[list[Any]]:
    """The payloads of each claim, in its order, until nothing is left."""
    found = []
    while batch := Message.objects.claim(100, queue=QUEUE):
        found.append([message.payload for message in batch])
        Message.objects.ack(batch)
    return found


def sealed(envelopes: Iterable[Envelope]) -> list[Sealed]:
    return [seal(each, queue=QUEUE, priority=0, max_bytes=1000) for each in envelopes]


def write_directly(*chunks: Iterable[Envelope]) -> int:
    with Lasting(credentials_of("default"), outage=0) as session:
        return write_tasks.write_directly(session, [sealed(chunk) for chunk in chunks], notify=True)


def test_a_published_group_runs_in_the_order_of_tasks_and_rows() -> None:
    run = number()
    second = stage([*grouped([3, 4]), *grouped(["b"], "b")], run=run)
    first = stage([*grouped([1, 2]), Envelope("none")], run=run)
    assert publish(first, second, run=run) == Published("job", created=6, ignored=0, again=False)
    assert not StagedMessage.objects.exists()
    assert set(Ticket.objects.values_list("lane", flat=True)) == {lane_of(QUEUE, "a"), lane_of(QUEUE, "b")}
    assert [sorted(map(str, batch)) for batch in drained()] == [["1", "b", "none"], ["2"], ["3"], ["4"]]
    assert not Line.objects.exists()
    assert not Ticket.objects.exists()


def test_what_is_published_is_what_enqueue_would_have_written() -> None:
    run = number()
    Message.objects.enqueue("ahead", queue=QUEUE, group="a")
    publish(stage(grouped(["x"], delay=600, priority=3, max_reads=2, lease=7.5, headers={"a": 1}), run=run), run=run)
    Message.objects.enqueue(
        "x", queue=QUEUE, group="a", delay=600, priority=3, max_reads=2, lease=7.5, headers={"a": 1}
    )
    left = ("id", "created_at", "due_at")
    _first, by_job, by_python = Message.objects.order_by("pk").values()
    assert {name: value for name, value in by_job.items() if name not in left} == {
        name: value for name, value in by_python.items() if name not in left
    }
    assert by_job["available_at"].year == 9999
    assert 0 <= (by_python["due_at"] - by_job["due_at"]).total_seconds() < 60


def test_a_long_stage_is_in_line_whole_and_behind_those_that_wait_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_PUBLISHED_AT_ONCE", 3)
    Message.objects.enqueue("first", queue=QUEUE, group="a")
    Message.objects.enqueue("second", queue=QUEUE, group="a")
    run = number()
    assert publish(stage(grouped(range(8)), run=run), stage(["none"] * 4, run=run), run=run).created == 12
    assert [batch for batch in drained() if batch != ["none"] * 4][1:] == [["second"], *([each] for each in range(8))]


def test_a_key_that_is_in_use_puts_none_into_a_line() -> None:
    Message.objects.enqueue("first", queue=QUEUE, key="k")
    run = number()
    assert publish(stage([*grouped(["x"], key="k"), *grouped([1, 2])], run=run), run=run).ignored == 1
    assert sorted(str(payload) for batch in drained() for payload in batch) == ["1", "2", "first"]


def test_a_job_that_is_published_again_adds_none_to_a_line() -> None:
    for run in (number(), number()):
        publish(stage(grouped([1, 2]), run=run), run=run)
    assert drained() == [[1], [2]]


def test_a_limit_of_the_groups_own_holds_and_a_pause_does() -> None:
    Group.objects.limit(QUEUE, "wide", 3)
    Group.objects.pause(QUEUE, "paused")
    run = number()
    publish(stage([*grouped(range(5), "wide"), *grouped(["p"], "paused"), *grouped(["a", "b"])], run=run), run=run)
    [first, *_] = drained()
    assert sorted(map(str, first)) == ["0", "1", "2", "a"]
    assert Message.objects.waiting(QUEUE).get().payload == "p"


def test_rows_written_directly_are_in_line_too() -> None:
    assert write_directly([*grouped([1, 2]), Envelope("none")], grouped([3]), [Envelope("more")]) == 5
    assert [sorted(map(str, batch)) for batch in drained()] == [["1", "more", "none"], ["2"], ["3"]]
    assert write_directly(grouped(["x"], key="k"), grouped(["y"], key="k")) == 1
    assert drained() == [["x"]]


def test_messages_without_a_group_are_written_with_no_statement_more(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    for verb in ("run", "fetch"):
        real = getattr(Connection, verb)

        def noted(self: Connection, statement: Any, real: Any = real) -> Any:
            statements.append(statement.sql)
            return real(self, statement)

        monkeypatch.setattr(Connection, verb, noted)
    run = number()
    publish(stage([1, 2], run=run), run=run)
    write_directly([Envelope(3)], [Envelope(4)])
    assert len(statements) > 8
    assert [sql for sql in statements if "lane" in sql or "group_name" in sql or "_line" in sql] == []


def test_a_job_that_cannot_kick_is_published_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise DatabaseAway("gone")

    monkeypatch.setattr(group_lines, "kick", away)
    run = number()
    assert publish(stage(grouped([1, 2]), run=run), run=run).created == 2
    assert "1 groups could not be looked after" in caplog.text
    assert not Ticket.objects.exists()
    Keepers(session_of("default")).turn()
    assert drained() == [[1], [2]]


if settings.TEST_DATABASE != "sqlite":  # which has one writer at a time

    def test_those_of_other_senders_are_left_alone_while_a_job_publishes() -> None:
        """Others send, kick, claim and ack between the writing of messages and that of their places."""
        first = Message.objects.enqueue("first", queue=QUEUE, group="a").pk
        with connect() as job:
            envelopes = sealed(grouped(["mine"]))
            rows = [write_tasks.row_of(item, job.vendor) for item in envelopes]

            def write() -> int:
                count = job.run(staging_sql.insert_directly(job.server, rows))
                others = [Message.objects.enqueue(n, queue=QUEUE, group="a").pk for n in ("second", "third")]
                claimed = Message.objects.claim(1, queue=QUEUE)
                assert [message.pk for message in claimed] == [first]
                Message.objects.ack(claimed)
                assert list(Ticket.objects.values_list("message_id", flat=True)) == [others[0]]
                return count

            with job.transaction():
                assert group_lines.into_lines(job, write) == 1
        mine = Message.objects.get(body__contains="mine").pk
        third = Message.objects.get(body__contains="third").pk
        assert set(Line.objects.values_list("message_id", flat=True)) == {mine, third}
        assert [batch[0] for batch in drained()] == ["second", "mine", "third"]


if settings.TEST_DATABASE != "sqlite":

    def test_what_waits_in_a_flow_of_somebody_else_gets_no_turn_by_a_job_that_writes_alongside() -> None:
        with connect() as connection, connection.transaction():

            def write() -> int:
                with flow("theirs") as f:
                    first = f.enqueue("first", queue=QUEUE)
                    f.enqueue(Envelope("later", group="a"), queue=QUEUE, after=first)
                return 1

            assert group_lines.into_lines(connection, write) == 1
        assert not Line.objects.exists()
        assert drained() == [["first"], ["later"]]
