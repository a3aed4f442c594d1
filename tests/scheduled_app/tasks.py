"""A task that is enqueued by the clock."""

from __future__ import annotations

from django_dbqueue.tasks import task_options
from django_dbqueue.tasks.compat import HOME

if HOME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


@task(queue_name="by-the-clock")
@task_options(cron="* * * * * *", timezone="UTC", missed="all")
def tick(word: str = "tick") -> str:
    return word
