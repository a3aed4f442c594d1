"""``enqueue_many`` of tasks of several queues: all of them, or none."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.models import Message
from django_dbqueue.tasks.compat import InvalidTask

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_the_second_queue_refuses_is_not_in_the_first_either(jobs: Any) -> None:
    """The queues are written one after the other, in one transaction."""
    good, refused = (jobs.add, (1, 2), {}), (jobs.add.using(queue_name="jobs"), ("\ud800", 1), {})
    for calls in ([good, refused], [refused, good]):
        with pytest.raises(InvalidTask):
            jobs.add.get_backend().enqueue_many(calls)
        assert not Message.objects.exists()
