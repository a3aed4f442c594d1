"""A project's foreign key to messages: check says what it does, and what to do; the queue works beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.testing.project import Project

pytestmark = pytest.mark.once

MODELS: Final = """
from django.db import models

class Order(models.Model):
    message = models.ForeignKey("django_dbqueue.Message", null=True, on_delete=models.SET_NULL)
    others = models.ManyToManyField("django_dbqueue.Message", related_name="+")

class Loose(models.Model):
    message = models.ForeignKey("django_dbqueue.Message", on_delete=models.DO_NOTHING, db_constraint=False)
    number = models.BigIntegerField()

class Paper(models.Model):
    result = models.ForeignKey("django_dbqueue.Result", null=True, on_delete=models.SET_NULL)
    queue = models.ForeignKey("django_dbqueue.Queue", on_delete=models.PROTECT)
"""
ARCHIVE: Final = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from accounts.models import Loose, Order
from django.db import connection, transaction
from django_dbqueue.models import Message
for number in range(6):
    Message.objects.enqueue(number)
messages = Message.objects.claim(6)
Message.objects.ack(messages)
with transaction.atomic():
    Order.objects.create(message=messages[1]).others.add(messages[4])
    Loose.objects.create(message=messages[2], number=messages[3].pk)
    print(Message.objects.filter(pk__in=[each.pk for each in messages[:3]]).purge())
with transaction.atomic():
    print(Message.objects.archive("default", older_than=0))
print([each.payload for each in Message.objects.order_by("pk")])
"""
DELETES: Final = """
DBQUEUE = {"QUEUES": {"default": {"on_ack": "delete"}}}
"""
FORGET: Final = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from datetime import timedelta
from accounts.models import Order, Paper
from django.utils import timezone
from django_dbqueue.lifecycle.expired_rows import forget_results
from django_dbqueue.models import Message, Queue, Result
from django_dbqueue.sessions.django_session import session_of
old = timezone.now() - timedelta(days=1)
for number in range(1, 4):
    Result.objects.create(message_id=number, body="1", content_type="json", expires_at=old)
Paper.objects.create(result_id=2, queue=Queue.objects.get_or_create(name="default")[0])
print(forget_results(session_of("default"), limit=10), list(Result.objects.values_list("pk", flat=True)))

for number in range(2):
    Message.objects.enqueue(number)
messages = Message.objects.claim(2)
for message in messages:
    with message.transaction():
        if message.payload:
            Order.objects.create(message=message)
print([each.status for each in Message.objects.all()], Order.objects.count())
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("accounts/models.py", MODELS)
    return made


def test_check_names_each_that_the_server_enforces(project: Project) -> None:
    output = project.run("python manage.py check")
    assert output.count("(dbqueue.W023)") == 3
    assert "accounts.Order.message is a foreign key to messages" in output
    others = (
        "accounts.Order_others.message is a foreign key to messages",
        "Paper.result is a foreign key to django_dbq",
    )
    assert all(each in output for each in others)
    assert "db_constraint=False" in output


def test_inside_a_callers_transaction_too_the_archive_passes_by_what_they_hold(project: Project) -> None:
    project.run("python manage.py makemigrations accounts")
    project.run("python manage.py migrate")
    project.write("work.py", ARCHIVE)
    output = project.run("python work.py").splitlines()
    assert [line for line in output if not line.startswith("left in the table")] == ["2", "2", "[1, 4]"]


def test_what_they_hold_is_neither_forgotten_nor_deleted_by_the_ack_of_its_own_transaction(project: Project) -> None:
    project.run("python manage.py makemigrations accounts")
    project.run("python manage.py migrate")
    project.write("shop/settings.py", DELETES)
    project.write("work.py", FORGET)
    lines = project.run("python work.py").splitlines()
    assert [line for line in lines if not line.startswith("left in the table")] == ["2 [2]", "['y'] 1"]
    assert not [line for line in lines if "neither archived nor purged" in line], "an ack is no archive"
