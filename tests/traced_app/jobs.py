"""The task that a web request enqueues, which sends a message itself."""

from __future__ import annotations

from django_dbqueue.models import Message
from django_dbqueue.tasks.compat import HOME

if HOME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


@task
def bill(order: int) -> None:
    Message.objects.enqueue({"do": "ok", "order": order}, queue="traced")
