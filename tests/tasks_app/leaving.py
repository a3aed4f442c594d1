"""Tasks that leave something for the next, and look at what there is."""

from __future__ import annotations

import json
from pathlib import Path

from django.db import connection
from django.utils import timezone, translation

from django_dbqueue.tasks import task_options
from django_dbqueue.tasks.compat import HOME
from tests.consumers_app import leaving

if HOME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


def _read_and_leave(file: str) -> None:
    with Path(file).open("a") as lines:
        lines.write(json.dumps(leaving.seen()) + "\n")
    leaving.leave(leaving.IN_TRANSACTION[connection.vendor])


@task
def read_and_leave(file: str) -> None:
    _read_and_leave(file)


@task
@task_options(transactional=True)
def read_and_leave_in_one_commit(file: str) -> None:
    _read_and_leave(file)


@task
async def read_and_leave_asynchronously(file: str) -> None:
    context = leaving.context_seen()
    with Path(file).open("a") as lines:
        lines.write(json.dumps({"context": context}) + "\n")
    leaving.left.set("something")
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
