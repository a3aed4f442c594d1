"""MariaDB's mode for the SQL of another server, which a database that has moved there may keep."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from django_dbqueue.models import Message
from tests.factories import QUEUE, dead, rows

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_message_lives_its_life_in_the_mode_of_oracle() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode = CONCAT('ORACLE,', @@sql_mode)")
    try:
        with transaction.atomic():
            Message.objects.enqueue({"a": ""}, queue=QUEUE, key="k")
        [message] = Message.objects.claim(1, queue=QUEUE)
        message.nack(delay=0)
        [message] = Message.objects.claim(1, queue=QUEUE)
        message.ack()
        lost = dead()
        assert Message.objects.filter(pk=lost.pk).requeue() == 1
        assert Message.objects.rescue() == 0
        assert Message.objects.archive(QUEUE, older_than=0) == 1
        assert [each["id"] for each in rows()] == [lost.pk]
    finally:
        connection.close()
