"""The backend's task: Django's, with our options as keywords, and the verbs that people know from Celery."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from django_dbqueue.tasks.compat import AnyTask
from django_dbqueue.tasks.options import Backoff

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class DBQueueTask(AnyTask):
    """A task of this backend; None leaves an option to ``@task_options``, the queue and the backend."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    lease: float | None = None
    transactional: bool | None = None
    keep_results: float | None = None

    def delay(self, *args: Any, **kwargs: Any) -> AnyResult:
        """Enqueue it with these arguments, as Celery's ``delay`` does."""
        return self.enqueue(*args, **kwargs)

    def apply_async(
        self,
        args: tuple[Any, ...] | list[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        *,
        countdown: float | timedelta | None = None,
        eta: datetime | None = None,
        expires: float | timedelta | datetime | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> AnyResult:
        """Enqueue it as Celery's ``apply_async`` does.

        ``countdown`` is in seconds from now, ``eta`` an aware datetime. A task that a worker claims after ``expires``
        (seconds from now, or an aware datetime) is dropped: FAILED, and never run.
        """
        if countdown is not None and eta is not None:
            raise ValueError("Give countdown or eta, not both.")
        when = eta if countdown is None else timezone.now() + _length(countdown)
        task = self.using(run_after=when, queue_name=queue, priority=priority)
        limit = expires if expires is None or isinstance(expires, datetime) else timezone.now() + _length(expires)
        backend: Any = self.get_backend()
        result: AnyResult = backend.enqueue(task, args or (), kwargs or {}, expires=limit)
        return result


def _length(seconds: float | timedelta) -> timedelta:
    return seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
