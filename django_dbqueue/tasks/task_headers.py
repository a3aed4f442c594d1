"""The headers of a message that is a task; importable where there is no ``django.tasks``."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django_dbqueue import codecs
from django_dbqueue.codecs import Json
from django_dbqueue.exceptions import UndecodableMessage

TASK: Final = "dbqueue.task"
"""The header that names the task: its module and its name there."""
BACKEND: Final = "dbqueue.backend"
"""The alias of its backend, unless it is ``default``."""
EXPIRES: Final = "dbqueue.expires"
"""When it is too late to run it, in ISO 8601."""
DEFAULT: Final = "default"
ANY_QUEUE: Final = ("default",)
"""The queues of a backend that takes any name, as far as they are known beforehand."""
EXPIRED: Final = "Expired: "
"""How the error of a task begins that was not run because it was too late."""


def task_named(headers_text: str | None) -> str | None:
    """Return the dotted name of the task that a message is; None if it is none, or can't be decoded."""
    if headers_text is None or TASK not in headers_text:
        return None
    try:
        name = codecs.decode_headers(headers_text).get(TASK)
    except UndecodableMessage:
        return None
    return name if isinstance(name, str) else None


def expiry_in(headers: dict[str, Json]) -> datetime | None:
    """Return when it is too late to run the task; UndecodableMessage if somebody has changed the header."""
    if (value := headers.get(EXPIRES)) is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UndecodableMessage(
            f"Its header {EXPIRES!r} must be a moment in ISO 8601 with an offset, not {value!r:.200}."
        )
    return moment
