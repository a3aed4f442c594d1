"""Which messages are tasks, and of which name: text of their headers, which no index has, so only of given ids."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from django.db.models import QuerySet, Value
from django.db.models.functions import StrIndex

from django_dbqueue.databases.statement import chunks
from django_dbqueue.models import Message
from django_dbqueue.tasks.task_headers import TASK, task_named

SEARCHED: Final = 5_000
"""Messages whose headers one page compares with a task's name."""
PATH: Final = re.compile(r"[^\W\d][\w.]{0,299}\Z")
"""The dotted name of a task."""
_AT_ONCE: Final = 500


def tasks_of(using: str, ids: Sequence[int]) -> dict[int, str]:
    """Return the names of the tasks among these messages."""
    names = {pk: task_named(text) for some in chunks(ids, _AT_ONCE) for pk, text in _quoting(using, some, TASK)}
    return {pk: name for pk, name in names.items() if name is not None}


def with_task(using: str, ids: Sequence[int], task: str, *, limit: int) -> list[int]:
    """Return the first ``limit`` of these messages that are this task, in their order."""
    found: list[int] = []
    for some in chunks(ids, _AT_ONCE):
        named = {pk for pk, text in _quoting(using, some, TASK, task) if task_named(text) == task}
        found += [pk for pk in some if pk in named]
        if len(found) >= limit:
            break
    return found[:limit]


def last_part(task: str) -> str:
    """Return the last part of a task's name."""
    return task.rpartition(".")[2] or task


def _quoting(using: str, ids: Sequence[int], *words: str) -> QuerySet[Any, tuple[int, str]]:
    """Return id and headers of those whose headers have all these words as strings of JSON: the server compares."""
    rows: Any = Message.objects.using(using).filter(pk__in=ids)
    for number, word in enumerate(words):
        quoted = Value(json.dumps(word, ensure_ascii=False))
        rows = rows.alias(**{f"at_{number}": StrIndex("headers_text", quoted)}).filter(**{f"at_{number}__gt": 0})
    found: QuerySet[Any, tuple[int, str]] = rows.values_list("id", "headers_text")
    return found
