"""Half of it is imported: the function with a cron, which nobody finds afterwards."""

from __future__ import annotations

from django_dbqueue.tasks import task_options


@task_options(cron="* * * * *")
def early() -> None: ...


raise RuntimeError("half a release")
