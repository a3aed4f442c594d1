"""The table of states: SQL, the ORM and Python tell the same messages apart, and so do its words."""

from __future__ import annotations

import pytest

from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.databases import Statement
from django_dbqueue.models import Message
from django_dbqueue.models.fields import DbNow, clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.selections import q_of
from django_dbqueue.states.table import PARKED_AT, STATES, Place, Stage, condition_of, range_of, state_of
from tests.commands.peeking import one_of_each
from tests.factories import QUEUE, MessageFactory

pytestmark = pytest.mark.django_db


def found(where: Statement) -> list[int]:
    session = session_of("default")
    rows = session.fetch(Statement(f"SELECT id FROM {session.server.message} WHERE {where.sql}", where.params))
    return sorted(int(row[0]) for row in rows)


@pytest.mark.parametrize("name", STATES)
def test_sql_the_orm_and_python_find_the_same_message_in_a_state(name: str) -> None:
    messages, server = one_of_each(), session_of("default").server
    this = messages[name].pk
    assert found(Statement(condition_of(server, name), ())) == found(range_of(server, Place(QUEUE, name, 0))) == [this]
    assert list(Message.objects.in_state(name).values_list("pk", flat=True)) == [this]
    now = clock("default")
    assert {each.pk for each in Message.objects.all() if state_of(each, now) is STATES[name]} == {this}


def test_what_streams_hold_too_long_is_stuck_to_sql_and_the_orm() -> None:
    server = session_of("default").server
    in_time, overdue = MessageFactory.create_batch(2, state="running")
    for message, token in ((in_time, 1), (overdue, 2)):
        Message.objects.filter(pk=message.pk).update(available_at=PARKED_AT, claim_token=token)
    for state, those in (("stuck", [overdue.pk]), ("running", [in_time.pk])):
        assert found(range_of(server, Place(QUEUE, state, 0), [2])) == those
        assert list(Message.objects.filter(q_of(state, DbNow(), [2])).values_list("pk", flat=True)) == those


@pytest.mark.parametrize("stage", Stage)
def test_a_stage_is_that_of_its_states(stage: Stage) -> None:
    messages = one_of_each()
    those = {messages[name].pk for name in stage.states}
    assert (
        set(found(Statement(stage.sql, ())))
        == {each.pk for each in Message.objects.all() if each.stage is stage}
        == those
    )


def test_each_state_has_its_words() -> None:
    assert set(WORDS) == set(STATES)
