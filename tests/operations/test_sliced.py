"""What changes many messages takes a selection of any size, but no slice of one."""

from __future__ import annotations

from typing import Any

import pytest

from django_dbqueue.models import Message
from django_dbqueue.models.querysets import MessageQuerySet
from tests.factories import dead, done, rows, waiting

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "change",
    [
        MessageQuerySet.requeue,
        MessageQuerySet.due_now,
        lambda some: some.move_to("elsewhere"),
        lambda some: some.drop_all("clear"),
        lambda some: some.reject_waiting("clear"),
        MessageQuerySet.send_again,
        MessageQuerySet.purge,
    ],
)
def test_a_slice_is_refused_with_a_sentence_and_nothing_is_changed(change: Any) -> None:
    messages = [done(), dead(), waiting(), waiting(delay=1000)]
    before = rows()
    with pytest.raises(TypeError, match=r"page by page, and can't do that with a slice.*filter\(pk__in="):
        change(Message.objects.all()[:100])
    assert rows() == before
    ids = list(Message.objects.all()[:100].values_list("pk", flat=True))
    change(Message.objects.filter(pk__in=ids))
    assert sorted(ids) == [message.pk for message in messages]
    assert rows() != before
