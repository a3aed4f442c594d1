"""The backend's task: Django's, with our options as keywords, and the verbs that people know from Celery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from django_dbqueue.envelope import Envelope, check_seconds
from django_dbqueue.exceptions import InvalidMessage
from django_dbqueue.schedules.declarations import Missed
from django_dbqueue.settable.option_table import SetIn, refusal
from django_dbqueue.tasks.compat import AnyTask, InvalidTask, is_in_process
from django_dbqueue.tasks.options import Backoff, GroupOf, note_schedule
from django_dbqueue.tasks.task_moments import as_django_shows, now

if TYPE_CHECKING:
    from django_dbqueue.tasks.compat import AnyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class DBQueueTask(AnyTask):
    """A task of this backend; None leaves an option to ``@task_options``, the queue and the backend."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    lease: float | timedelta | None = None
    timeout: float | timedelta | None = None
    interruptible: bool | None = None
    transactional: bool | None = None
    keep_results: float | timedelta | None = None
    group: GroupOf | None = None
    cron: str | None = None
    timezone: str | None = None
    missed: Missed | None = None
    call_options: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """What ``apply_async``, or a schedule, gives the backend for one call, through ``enqueue()``."""

    def __new__(cls, **options: Any) -> Self:
        """Raise TypeError for an option that a task doesn't take; it says why."""
        for name in options.keys() - cls.__dataclass_fields__.keys():
            raise TypeError(f"@task {refusal(SetIn.TASK, name)}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        AnyTask.__post_init__(self)
        note_schedule(self.func, self.cron)

    def delay(self, *args: Any, **kwargs: Any) -> AnyResult:
        """Enqueue it with these arguments, as Celery's ``delay`` does."""
        return self.enqueue(*args, **kwargs)

    def signature(self, *args: Any, **kwargs: Any) -> tuple[str, Envelope]:
        """Return its queue and its message with these arguments, for a flow: ``f.chain(a.signature(1), …)``.

        TypeError or ValueError for arguments that JSON can't express.
        """
        from django_dbqueue.tasks.envelopes import envelope_of
        from django_dbqueue.tasks.options import options_of

        backend: Any = self.get_backend()
        backend.validate_task(self)
        return self.queue_name, envelope_of(self, args, kwargs, options_of(self, backend.options), backend.alias)

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
        group: str | None = None,
        once: str | None = None,
        once_for: float | timedelta | None = None,
    ) -> AnyResult:
        """Enqueue it as Celery's ``apply_async`` does.

        ``countdown`` is in seconds from now, ``eta`` an aware datetime. A task that a worker claims after ``expires``
        (seconds from now, or an aware datetime) is dropped: FAILED, and never run. ``group`` comes before the task's
        own. If the queue has taken a task with the token ``once`` in the last ``once_for`` (seconds or timedelta; a
        day), that one's result is returned.

        Under Django's immediate and dummy backends, which tests set, the last four have no effect. InvalidTask under
        another backend that isn't this one.
        """
        from django_dbqueue.tasks.envelopes import check_containers

        if countdown is not None and eta is not None:
            raise ValueError("Give countdown or eta, not both.")
        backend: Any = self.get_backend()
        when = eta if countdown is None else as_django_shows(_from_now(backend, "countdown", countdown))
        task = self.using(run_after=when, queue_name=queue, priority=priority)
        limit = expires if expires is None or isinstance(expires, datetime) else _from_now(backend, "expires", expires)
        options = {"expires": limit, "group": group, "once": once, "once_for": once_for}
        if call := _accepted_by(backend, {name: value for name, value in options.items() if value is not None}):
            task = replace(task, call_options=call)  # type: ignore[call-arg]
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        check_containers(task, args, kwargs)  # before they are unpacked, which would split a text
        return task.enqueue(*args, **kwargs)


def _accepted_by(backend: object, options: dict[str, Any]) -> dict[str, Any]:
    """Return those of our options of a call that a task's backend takes; InvalidTask if it would lose one silently."""
    if getattr(backend, "supports_call_options", False):
        return options
    if options and not is_in_process(backend):
        raise InvalidTask(f"{type(backend).__name__} has no {', '.join(options)}: only the backend of this queue has.")
    return {}


def _from_now(backend: object, name: str, seconds: float | timedelta) -> datetime:
    """Return now plus a length of time, by the clock of the queue's database if the task goes there."""
    length = _length(name, seconds)
    if not getattr(backend, "supports_call_options", False):
        return now() + length
    from django_dbqueue.models import Message
    from django_dbqueue.models.aliases import db_alias
    from django_dbqueue.models.fields import clock

    return clock(db_alias(Message)) + length


def _length(name: str, seconds: float | timedelta) -> timedelta:
    """Return a length of time; one below 0, which Celery allows, ended before now. InvalidTask for anything else."""
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    is_below_0 = isinstance(seconds, int | float) and seconds < 0
    try:
        length = timedelta(seconds=check_seconds(name, -seconds if is_below_0 else seconds))
    except InvalidMessage as error:
        raise InvalidTask(str(error)) from error
    return -length if is_below_0 else length
