"""The transfers of ``queue_consumers``, as tasks."""

from __future__ import annotations

from django_dbqueue.tasks import task_options
from django_dbqueue.tasks.compat import HOME
from tests.bank_app.queue_consumers import book

if HOME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


@task(queue_name="bookings")
@task_options(transactional=True, max_attempts=0, backoff=0.02)
def transfer(**booking: int) -> int:
    book(booking)
    return booking["number"]
