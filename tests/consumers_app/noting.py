"""The log file in which handlers note what they do, and the file for which they wait."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_dbqueue.models import Message


def note(step: str, message: Message, **more: Any) -> None:
    """Append one line; a single write of O_APPEND is not torn by other processes."""
    line = {"step": step, "id": message.pk, "reads": message.read_count, "pid": os.getpid(), "at": time.time(), **more}
    file = os.open(os.environ["DBQUEUE_TEST_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def until(message: Message, what: dict[str, Any]) -> None:
    """Run until the test makes a file."""
    while not Path(what["file"]).exists():
        time.sleep(0.01)


def notes() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(os.environ["DBQUEUE_TEST_LOG"]).read_text().splitlines()]
