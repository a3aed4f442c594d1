"""What the processes of a run write down, a line for each event, in one file: its order is the order of the events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

Note = dict[str, Any]

SENDING: Final = "sending"
SENT: Final = "sent"
ROLLED_BACK: Final = "rolled back"
"""A sender's transaction: about to be sent, committed, surely not committed. Without the latter two nobody knows."""
BEGIN: Final = "begin"
END: Final = "end"
FAILED: Final = "failed"
"""A delivery: its handler begins, ends, and has failed on purpose."""
SESSION: Final = "session"
"""A process has connected, and its session holds a lock with this number."""


class History:
    """The file. Each note is one write at its end, so that a process that is killed leaves no half of one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._read_to = 0

    def note(self, step: str, **words: object) -> None:
        """Write down what happens now."""
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self._file, (json.dumps({"step": step, "pid": os.getpid(), **words}) + "\n").encode())

    def all(self) -> Iterator[Note]:
        """Read all notes, in the order in which they were written."""
        with self._path.open(encoding="ascii") as lines:
            yield from map(json.loads, lines)

    def news(self) -> list[Note]:
        """Return what was written since the last call, without a line that is just being written."""
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def create(self) -> None:
        """Make the empty file."""
        self._path.touch(0o600)
