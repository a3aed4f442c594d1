"""Tasks: whether those of waiting messages are here, and whether old results are deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.utils.translation import gettext as _

from django_dbqueue import codecs, conf
from django_dbqueue.consumers.registry import functions
from django_dbqueue.doctor.check import examines
from django_dbqueue.doctor.examined_database import ExaminedDatabase, first_line
from django_dbqueue.doctor.finding import Finding, fine, warning
from django_dbqueue.doctor.worker_checks import living, served
from django_dbqueue.envelope import QUEUE_NAME
from django_dbqueue.models import Message, Result
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.counts import Capped, grouped
from django_dbqueue.states.ranges_in_use import ranges_in_use
from django_dbqueue.tasks.backends_in_use import backends
from django_dbqueue.tasks.task_headers import BACKEND, DEFAULT, task_named

EXAMINED: Final = 2_000
"""Messages whose headers are read, shared by the queues."""
MOST_QUEUES: Final = 200
MOST_NAMED: Final = 20
"""Tasks that are reported one by one."""
LATE: Final = timedelta(hours=1)
"""How long after its time a result is deleted at the latest, where workers run."""
COUNTED: Final = 10_000
"""Where the count of results stops."""

Named = tuple[str, str]
"""A task as a message names it: its dotted path, and the alias of its backend."""


@examines("tasks", needs_tables=True)
def tasks(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether the tasks that waiting messages name can be imported here."""
    seen, named = _examined(database)
    unknown = {each: why for each in sorted(named) if (why := _why_not(each)) is not None}
    for each, why in list(unknown.items())[:MOST_NAMED]:
        queues = named[each]
        yield warning(
            _(
                "Waiting messages name the task %(task)s, which can't be imported here: %(error)s (%(count)s of the "
                "%(seen)s messages examined; queues: %(queues)s)."
            )
            % {
                "task": each[0],
                "error": why,
                "count": grouped(queues.total()),
                "seen": grouped(seen),
                "queues": ", ".join(sorted(queues)),
            },
            _(
                "Install the code that has this task, here and for the workers. If it was renamed or removed, keep it "
                "under its old name until these messages are done. Workers release such a message for an hour after "
                "it was due; then it fails."
            ),
        )
    if len(unknown) > MOST_NAMED:
        yield warning(
            _("More tasks can't be imported here than the %s listed.") % MOST_NAMED,
            _("Start with these: often one module is missing."),
        )
    if not named:
        yield fine(_("No waiting message names a task (messages examined: %s).") % grouped(seen))
    elif not unknown:
        yield fine(
            _("The tasks of waiting messages can be imported here (tasks: %(tasks)s, messages examined: %(seen)s).")
            % {"tasks": grouped(len(named)), "seen": grouped(seen)}
        )


@examines("task-queues", needs_tables=True)
def queues(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether some worker serves each queue that ``TASKS`` names; while none is alive, it isn't asked.

    Nor where the queue doesn't live: tasks are not sent there.
    """
    if database.alias != (conf.get("DATABASE") or router.db_for_write(Message)):
        return
    now, wanted = clock(database.alias), _queues_of_tasks()
    if not wanted or not living(database, now):
        return
    unserved = sorted(wanted - served(database, now))
    if not unserved:
        yield fine(_("Each queue that TASKS names is served by a worker."))
        return
    yield warning(
        _("TASKS names queues that no worker serves: %s. Tasks that are sent there wait.")
        % ", ".join(unserved[:MOST_NAMED]),
        f"manage.py run_queue_worker --queues {','.join(unserved[:MOST_NAMED])}",
    )


def _queues_of_tasks() -> set[str]:
    try:
        return {str(queue) for each in backends().values() for queue in each.queues}
    except (ImportError, ImproperlyConfigured):
        return set()  # which the check of the settings says


@examines("results", needs_tables=True)
def results(database: ExaminedDatabase) -> Iterable[Finding]:
    """Check whether results are deleted when they have been kept long enough."""
    now = clock(database.alias)
    past = Result.objects.using(database.alias).filter(expires_at__lte=now - LATE).order_by("expires_at")
    oldest = past.values_list("expires_at", flat=True).first()
    if oldest is None:
        yield fine(_("No result of a task is kept longer than it should be."))
        return
    count = Capped(past[: COUNTED + 1].count(), COUNTED)
    yield warning(
        _(
            "Results of tasks that should have been deleted: %(count)s, the oldest %(hours)d h ago. Workers delete "
            "them, so none was running, or none could."
        )
        % {"count": count, "hours": (now - oldest) // timedelta(hours=1)},
        _(
            "Start a worker: each deletes old results once a minute, whatever queues it serves. If one is running, "
            "look for errors in its log."
        ),
    )


def _examined(database: ExaminedDatabase) -> tuple[int, dict[Named, Counter[str]]]:
    """Return how many waiting messages were read, and the tasks that they name, each with its queues.

    The next ones of each queue: the ready, and then the delayed.
    """
    seen = 0
    named: dict[Named, Counter[str]] = {}
    queues = {each.queue for each in ranges_in_use(session_of(database.alias)) if each.may_hold("ready")}
    queues = {queue for queue in queues - set(functions()) if QUEUE_NAME.match(queue)}
    for queue in sorted(queues)[:MOST_QUEUES]:
        for message in _next_of(database, queue, EXAMINED // min(len(queues), MOST_QUEUES)):
            seen += 1
            if (path := task_named(message.headers_text)) is not None:
                alias = codecs.decode_headers(message.headers_text).get(BACKEND, DEFAULT)
                named.setdefault((path, str(alias)), Counter())[queue] += 1
    return seen, named


def _next_of(database: ExaminedDatabase, queue: str, limit: int) -> Iterator[Message]:
    rows = Message.objects.using(database.alias).only("headers_text")
    ready = rows.peek(queue, limit=limit)
    yield from ready
    if len(ready) < limit:
        yield from rows.peek(queue, state="delayed", limit=limit - len(ready))


def _why_not(named: Named) -> str | None:
    """Return why a worker with this project's code could not run a task; None if it could."""
    try:
        from django_dbqueue.tasks.lookup import Unfindable, find_task
    except ImproperlyConfigured as error:  # there is no django.tasks here
        return first_line(error)
    try:
        find_task(*named)
    except Unfindable as error:
        return first_line(error)
    return None
