"""A name that no queue can have is not found; no server is asked to compare what it can't."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.exceptions import InvalidSchedule
from django_dbqueue.models import Message, Queue, Schedule
from tests.factories import QUEUE

pytestmark = pytest.mark.django_db(transaction=True)
STRANGE = ["é", "“emails”", "a\0b", "\ud800", "队列"]


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    "lookup", ["exact", "iexact", "contains", "icontains", "startswith", "istartswith", "endswith", "iendswith"]
)
def test_it_equals_none_and_is_in_none(lookup: str, name: str) -> None:
    message = Message.objects.enqueue({}, queue=QUEUE)
    assert not Message.objects.filter(**{f"queue__{lookup}": name}).exists()
    assert Message.objects.exclude(**{f"queue__{lookup}": name}).get() == message


@pytest.mark.parametrize("name", STRANGE)
def test_of_several_names_it_is_left_out(name: str) -> None:
    message = Message.objects.enqueue({}, queue=QUEUE)
    assert Message.objects.filter(queue__in=[name, QUEUE]).get() == message
    assert not Message.objects.filter(queue__in=[name]).exists()
    assert Message.objects.exclude(queue__in=[name]).get() == message
    Queue.objects.create(name=QUEUE)
    assert Message.objects.filter(queue__in=Queue.objects.values("name")).get() == message


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("verb", [Schedule.objects.disable, Schedule.objects.enable, Schedule.objects.run_now])
def test_there_is_no_such_schedule(verb: Any, name: str) -> None:
    with pytest.raises(InvalidSchedule, match="There is no schedule"):
        verb(name)
