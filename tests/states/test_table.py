"""The table of states: SQL, the ORM and Python tell the same messages apart, and so do its words."""

from __future__ import annotations

import pytest

from django_dbqueue.admin.state_words import WORDS
from django_dbqueue.databases import Statement
from django_dbqueue.models import Message
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.table import STATES, Place, Stage, condition_of, range_of, state_of
from tests.commands.peeking import one_of_each
from tests.factories import QUEUE

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
