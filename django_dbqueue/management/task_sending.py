"""``queue_send --task``: enqueue a task by its dotted name, with arguments in JSON."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from django_dbqueue.codecs import Json, decode_json
from django_dbqueue.exceptions import InvalidMessage, UndecodableMessage
from django_dbqueue.management.common_options import Options

NOT_WITH_A_TASK: Final = ("payload", "key", "max_reads", "lease", "header")


def add_task_options(parser: ArgumentParser) -> None:
    """Add the options of a task."""
    parser.add_argument("--task", metavar="PATH", help="send a task: the dotted name of a function with @task")
    parser.add_argument("--args", dest="task_args", metavar="JSON", help="the task's arguments, as a JSON array")
    parser.add_argument(
        "--kwargs", dest="task_kwargs", metavar="JSON", help="the task's keyword arguments, as a JSON object"
    )


def send_task(options: Options, *, using: str) -> dict[str, Json]:
    """Enqueue the task that the options name in this database; InvalidMessage says what is wrong with them."""
    wrong = [name for name in NOT_WITH_A_TASK if options[name] not in (None, [])]
    if wrong:
        option = wrong[0] if wrong[0] == "payload" else "--" + wrong[0].replace("_", "-")
        raise InvalidMessage(_("%(option)s can't be used with --task.") % {"option": option})
    task = _task(options["task"])
    args, kwargs = _json("--args", options["task_args"], list), _json("--kwargs", options["task_kwargs"], dict)
    due = _due(options["delay"], options["at"])
    from django_dbqueue.tasks.backend import DBQueueBackend
    from django_dbqueue.tasks.compat import TaskException

    if not isinstance(task.get_backend(), DBQueueBackend):
        raise InvalidMessage(
            _("%(path)s is a task of the backend %(alias)r in TASKS, which isn't this one.")
            % {"path": options["task"], "alias": task.backend}
        )
    try:
        sent = task.using(priority=options["priority"], queue_name=options["queue"], run_after=due)
        result = replace(sent, call_options={"using": using}).enqueue(*args, **kwargs)
    except (TaskException, TypeError, ValueError) as error:
        raise InvalidMessage(str(error)) from error
    return {"id": int(result.id), "queue": sent.queue_name, "task": sent.module_path}


def _task(path: str) -> Any:
    try:
        from django_dbqueue.tasks.compat import Task

        task = import_string(path)
    except Exception as error:  # whatever the module raises
        raise InvalidMessage(
            _("The task %(path)s can't be imported: %(error)s") % {"path": path, "error": error}
        ) from (error)
    if not isinstance(task, Task):
        raise InvalidMessage(
            _("%(path)s is %(what)s, not a task: decorate the function with @task.")
            % {"path": path, "what": type(task).__name__}
        )
    return task


def _json(option: str, text: str | None, kind: type[Any]) -> Any:
    if text is None:
        return kind()
    try:
        value = decode_json(text)
    except UndecodableMessage as error:
        raise InvalidMessage(_("%(option)s is not JSON: %(error)s") % {"option": option, "error": error}) from error
    if not isinstance(value, kind):
        wanted = _("a JSON array, as in [1, 2]") if kind is list else _('a JSON object, as in {"name": "ann"}')
        raise InvalidMessage(_("%(option)s must be %(wanted)s.") % {"option": option, "wanted": wanted})
    return value


def _due(delay: float | None, at: datetime | None) -> datetime | None:
    return at if delay is None else timezone.now() + timedelta(seconds=delay)
