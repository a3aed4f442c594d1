"""How the worker's log lines look: text for people, JSON (one object a line) for machines. Times are UTC."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal

Format = Literal["text", "json"]


class TextFormatter(logging.Formatter):
    """``2026-01-31 12:00:00.000Z WARNING message 7 of emails failed…``."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname} [{record.process}] {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JSONFormatter(logging.Formatter):
    """Keys: time, level, logger, process, event, text, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "event": getattr(record, "event", "log"),
            "text": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds") + "Z"


def set_up(how: Format | None, verbosity: int) -> None:
    """Send the package's log to standard error; verbosity 0 warns, 1 informs, 2 and more say everything.

    Where the project's LOGGING has a handler for it and no format is asked for, that stands.
    """
    if how is None and logging.getLogger("django_dbqueue").handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter() if how == "json" else TextFormatter())
    package = logging.getLogger("django_dbqueue")
    package.handlers = [handler]
    package.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))
    package.propagate = False
