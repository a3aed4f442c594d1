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


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("accounts/models.py", MODELS)
    return made


def test_check_names_each_that_the_server_enforces(project: Project) -> None:
    output = project.run("python manage.py check")
    assert output.count("(dbqueue.W023)") == 2
    assert "accounts.Order.message is a foreign key to messages" in output
    assert "accounts.Order_others.message is a foreign key to messages" in output
    assert "db_constraint=False" in output


def test_inside_a_callers_transaction_too_the_archive_passes_by_what_they_hold(project: Project) -> None:
    project.run("python manage.py makemigrations accounts")
    project.run("python manage.py migrate")
    project.write("work.py", ARCHIVE)
    output = project.run("python work.py").splitlines()
    assert [line for line in output if not line.startswith("left in the table")] == ["2", "2", "[1, 4]"]
