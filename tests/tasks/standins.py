"""What stands where Django's own tests of tasks name Django's backends: ours, with the little that these add."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from django.test import override_settings

from django_dbqueue.models import Message
from django_dbqueue.tasks import DBQueueBackend
from django_dbqueue.tasks.compat import BaseTaskBackend
from django_dbqueue.testing import run_consumers


class Recording(DBQueueBackend):
    """As ``DummyBackend``: what was enqueued can be listed and cleared."""

    @property
    def results(self) -> list[Any]:
        return [self.get_result(str(pk)) for pk in Message.objects.order_by("pk").values_list("pk", flat=True)]

    def clear(self) -> None:
        Message.objects.all().delete()


class Immediate(DBQueueBackend):
    """As ``ImmediateBackend``: what was enqueued is run at once, in one attempt."""

    def enqueue(self, task: Any, args: Any, kwargs: Any, **more: Any) -> Any:  # type: ignore[override]
        result = super().enqueue(task, args, kwargs, **more)
        with override_settings(DBQUEUE={"DEFAULTS": {"max_reads": 1}}), suppress(SystemExit):
            run_consumers(on_error="collect")
        result.refresh()
        return result


class Theirs(BaseTaskBackend):
    """Somebody else's backend, which knows no more than Django asks of one."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        return SimpleNamespace(task=task, args=list(args), kwargs=dict(kwargs))
