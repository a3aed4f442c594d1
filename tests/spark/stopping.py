"""What the tests of outages stop and start, and what they write in the meantime."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.private import PrivateServer


class Outage(logging.Handler):
    """Stops the server, and starts it when whoever needs it has tried on a few times.

    In the thread that tries on: a server of these tests ends with the thread that has started it.
    """

    TRIES = 3

    def __init__(self, server: PrivateServer) -> None:
        super().__init__()
        self.server = server
        self.begun = 0
        self.tried = 0

    def begin(self) -> None:
        self.begun += 1
        self.server.stop()

    def emit(self, record: logging.LogRecord) -> None:
        if "away, retrying" in record.getMessage():
            self.tried += 1
            if self.tried == self.TRIES:
                self.server.start()


def frame(numbers: range, meanwhile: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """Rows in Arrow batches; between two of them something happens."""
    middle = numbers[len(numbers) // 2]
    for number in numbers:
        if number == middle:
            meanwhile()
        yield pa.RecordBatch.from_pydict({"json": [str(number)]})
