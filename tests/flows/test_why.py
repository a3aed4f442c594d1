"""Why a message of a flow waits, and who waits for a dead one (P22)."""

from __future__ import annotations

import pytest

from django_dbqueue import flow
from django_dbqueue.flows.flow_rows import Part
from django_dbqueue.models import Edge, Message
from tests.doctor.conftest import examined, levels
from tests.factories import QUEUE, claim_one
from tests.insight.test_why import ask

pytestmark = pytest.mark.django_db(transaction=True)


def message_of(part: Part) -> Message:
    return Message.objects.get(pk=part.first)


def test_it_waits_for_some_and_names_the_dead_first() -> None:
    with flow("f") as f:
        first, second = f.enqueue(1, queue=QUEUE), f.enqueue(2, queue=QUEUE)
        last = f.enqueue("last", queue=QUEUE, after=[first, second])
    answer = ask(message_of(last))
    assert (answer.code, answer.behind) == ("after", first.first)
    assert f"#{first.first} of its flow" in answer.text
    also, count = answer.evidence
    assert f"#{second.first}" in also
    assert "2 messages" in count
    claim_one()
    claim_one().reject("no")
    answer = ask(message_of(last))
    assert answer.code == "after_dead"
    assert f"#{second.first}" in answer.text
    assert f"#{second.first}" in answer.advice
    dead = ask(message_of(second))
    assert dead.evidence[-1] == (
        f"1 message of its flow waits for it, and continues when it is requeued, dropped or purged: #{last.first}."
    )
    assert levels(examined(), "groups") == ["ok"]


def test_it_waits_for_a_death() -> None:
    with flow("f") as f:
        first = f.enqueue(1, queue=QUEUE)
        alert = f.enqueue("alert", queue=QUEUE, after=first, when="dead")
    assert f"until #{first.first} is dead" in ask(message_of(alert)).text


def test_one_that_could_go_on_shows_it() -> None:
    with flow("f") as f:
        first = f.enqueue(1, queue=QUEUE)
        last = f.enqueue(2, queue=QUEUE, after=first)
    Edge.objects.filter(upstream__gt=0).delete()
    assert ask(message_of(last)).code == "after_nobody"
