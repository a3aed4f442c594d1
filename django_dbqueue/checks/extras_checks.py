"""Checks of settings that name what may not be installed, or may not be there at all."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from django.core import checks
from django.db import Error

from django_dbqueue import conf
from django_dbqueue.checks.settings_checks import check_settings
from django_dbqueue.consumers import consumer_modules, registry
from django_dbqueue.consumers.near_queues import near_queue
from django_dbqueue.consumers.reserved import check_reserved
from django_dbqueue.consumers.scheduled import Scheduled
from django_dbqueue.exceptions import InvalidSchedule, SchedulesNotInstalled
from django_dbqueue.tasks import task_schedules
from django_dbqueue.tasks.backends_in_use import backends, unimportable
from django_dbqueue.worker.fork import CAN_FORK


def check_extras(**_: object) -> list[checks.CheckMessage]:
    """Check that what the settings ask for is installed."""
    if conf.tracing() is not True or _is_installed("opentelemetry.trace"):
        return []
    return [
        checks.Error(
            f"{conf.NAME}['TRACE'] is True, but the package opentelemetry-api is not installed, so nothing is traced.",
            hint="pip install 'django-dbqueue[otel]', or leave TRACE out.",
            id="dbqueue.E009",
        )
    ]


def check_platform(**_: object) -> list[checks.CheckMessage]:
    """Check that workers can run here. The rest of the project can, so it is only a warning; workers refuse."""
    if CAN_FORK:
        return []
    return [
        checks.Warning(
            "No worker can run on this system: it forks its children, and Python can't fork here (Windows).",
            hint="Run workers on Linux or macOS, in a container or under WSL. Sending messages, the admin and all "
            "other commands work here; if that is all that this machine is for, silence dbqueue.W026.",
            id="dbqueue.W026",
        )
    ]


def check_task_backends(**_: object) -> list[checks.CheckMessage]:
    """Check that the backends of ``TASKS`` can be imported: a worker wouldn't know of the tasks of one that can't."""
    return [
        checks.Error(
            f"TASKS[{alias!r}]['BACKEND'] can't be imported: {error}",
            hint="The backend of this queue is 'django_dbqueue.tasks.DBQueueBackend'.",
            id="dbqueue.E023",
        )
        for alias, error in unimportable().items()
    ]


def check_consumers(**_: object) -> list[checks.CheckMessage]:
    """Check that the consumers can be imported: no worker starts otherwise.

    What fails on the database is only a warning: Django checks before it migrates, and then the tables may be missing.
    """
    return [
        checks.Warning(
            f"{module} queries the database while it is imported, which failed: {error}",
            hint="Query in the consumer itself, which runs when the database is there.",
            id="dbqueue.W021",
        )
        if isinstance(error, Error)
        else checks.Error(
            consumer_modules.sentence(module, error),
            hint="No worker can start until it can be. Where only workers have what it needs, put dbqueue.E024 into "
            "SILENCED_SYSTEM_CHECKS elsewhere.",
            id="dbqueue.E024",
        )
        for module, error in consumer_modules.unimportable().items()
    ]


def check_modules_of_tasks(**_: object) -> list[checks.CheckMessage]:
    """Check that the modules ``tasks`` can be imported: whatever has a ``cron`` there isn't enqueued otherwise."""
    if unimportable() or not backends():
        return []
    return [
        checks.Warning(
            f"{module} can't be imported, so no task in it is scheduled: {type(error).__name__}: {error}",
            hint="If it has no task with a cron, or only workers have what it needs, silence dbqueue.W025.",
            id="dbqueue.W025",
        )
        for module, error in task_schedules.unimportable().items()
    ]


def check_queues_of_consumers(**_: object) -> list[checks.CheckMessage]:
    """Check the queues of the consumers that can be imported, and the schedules of functions, in valid settings."""
    if any(message.is_serious() for message in check_settings()):
        return []
    consumer_modules.unimportable()
    scheduled = registry.scheduled()
    return [
        *(message for each in registry.functions().values() for message in check_reserved(each.queue, each.name)),
        *(message for each in scheduled for message in _plan(each, scheduled)),
        *_misspelt(),
    ]


def _misspelt() -> Iterator[checks.CheckMessage]:
    """Warn of options for a queue that has no consumer, if one that has one, and no options, has almost its name."""
    named = conf.get("QUEUES")
    there = registry.registered(named).keys()
    for name in named:
        if name not in there and (near := near_queue(name, there - named.keys())):
            yield checks.Warning(
                f"{conf.NAME}['QUEUES'] has options for the queue {name!r}, which has no consumer in this project.",
                hint=f"Did you mean {near!r}? If the consumer is in another project, silence dbqueue.W027.",
                id="dbqueue.W027",
            )


def _plan(each: Scheduled, among: list[Scheduled]) -> Iterator[checks.CheckMessage]:
    try:
        each.plan(among)
    except InvalidSchedule as error:
        yield checks.Error(
            f"The schedule of {each.holder} can't be used. {error}",
            hint="No worker can start until it is.",
            id="dbqueue.E006",
        )
    except SchedulesNotInstalled as error:
        yield checks.Warning(
            f"The due times of {each.holder} can't be computed. {error}",
            hint="No worker can start until they can be. Where only workers have it, silence dbqueue.W024 elsewhere.",
            id="dbqueue.W024",
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False
