"""The format of the worker's log lines: text for people, JSON (one object per line) for machines. Times are UTC.

A line that can't be written is lost, and nothing else: neither the worker nor the message it is about.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal

from django.utils.log import AdminEmailHandler

from django_dbqueue import hooks
from django_dbqueue.worker.mailing import MailingHandler

Format = Literal["text", "json"]
TASKS_LOGGERS: Final = ("django.tasks", "django_tasks")
"""Where Django, or the backport, logs each task that failed."""


class TextFormatter(logging.Formatter):
    """``2026-01-31 12:00:00.000Z WARNING message 7 of emails failed…``."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname} [{record.process}] {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JSONFormatter(logging.Formatter):
    """Keys: time, level, logger, process, event, text, the event's own fields; with tracing trace_id and span_id."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "event": getattr(record, "event", "log"),
            "text": record.getMessage(),
            **getattr(record, "fields", {}),
            **({} if hooks.active is None else hooks.active.log_fields()),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds") + "Z"


class LossyStream:
    """Standard output or error whose disk may be full and whose reader may be gone: failed writes are dropped."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write it if possible; anything but text is refused as usual."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, likewise."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush if possible."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def set_up(how: Format | None, verbosity: int) -> None:
    """Send the package's log to standard error; verbosity 0 shows warnings, 1 information, 2 and more everything.

    If the project's LOGGING has a handler for it and no format is asked for, that handler stays.
    """
    _lose_what_cannot_be_written()
    mailers = _mailers()
    _mail_aside()
    if how is None and logging.getLogger("django_dbqueue").handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter() if how == "json" else TextFormatter())
    package = logging.getLogger("django_dbqueue")
    package.handlers = [handler, *([MailingHandler(mailers)] if mailers else [])]
    package.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))
    package.propagate = False
    for each in _of_django_and_the_root():
        if isinstance(each, MailingHandler):
            each.addFilter(_is_of_others)


def _mailers() -> list[logging.Handler]:
    """Return what mails errors to ADMINS: by Django's LOGGING at ``django``, by a project's maybe at the root."""
    found: list[logging.Handler] = []
    for each in _of_django_and_the_root():
        found += each.mailers if isinstance(each, MailingHandler) else [each]
    return [each for each in dict.fromkeys(found) if isinstance(each, AdminEmailHandler)]


def _mail_aside() -> None:
    """Let a thread mail what any logger mails: Django logs each task that failed, in the thread that settles it."""
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers = [
                MailingHandler([each]) if isinstance(each, AdminEmailHandler) else each for each in logger.handlers
            ]


def _of_django_and_the_root() -> list[logging.Handler]:
    return [*logging.getLogger("django").handlers, *logging.root.handlers]


def _is_of_others(record: logging.LogRecord) -> bool:
    """Return whether a record is not Django's about a task of ours that failed, whose death our own log mails."""
    is_of_a_task = record.name in TASKS_LOGGERS and isinstance(record.args, tuple) and len(record.args) > 0
    return not (is_of_a_task and str(record.args[0]).isdecimal())  # type: ignore[index]


def _lose_what_cannot_be_written() -> None:
    """Keep streams and the project's logging handlers from raising where the worker writes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed before we were started, and a session must not get its number
            stream = open(os.devnull, "w")  # noqa: PTH123, SIM115
        if not isinstance(stream, LossyStream):
            setattr(sys, name, LossyStream(stream))
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] == "django_dbqueue" and isinstance(logger, logging.Logger):
            guard(logger)


def guard(logger: logging.Logger) -> None:
    """Keep what the project's LOGGING has for this logger from raising where it is used."""
    if "handle" in vars(logger):
        return
    handle = logger.handle

    def handle_or_lose(record: logging.LogRecord) -> None:
        try:
            handle(record)
        except Exception:  # raised by a handler or a filter of the project's LOGGING
            with suppress(Exception):
                traceback.print_exc()

    logger.handle = handle_or_lose  # type: ignore[method-assign]
