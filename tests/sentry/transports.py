"""Where Sentry's envelopes go in tests: into memory, or into a file that processes share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sentry_sdk.transport import Transport

from tests.otel.span_file import append

if TYPE_CHECKING:
    from sentry_sdk.envelope import Envelope


class Memory(Transport):
    """It keeps what it is given."""

    kept: list[Any]

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        super().__init__(options)
        Memory.kept = []

    def capture_envelope(self, envelope: Envelope) -> None:
        Memory.kept += [(item.type, item.payload.json) for item in envelope.items]


class File(Transport):
    """It writes each item as a line of JSON, at once."""

    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            append(os.environ["DBQUEUE_TEST_ENVELOPES"], {"type": item.type, "pid": os.getpid(), **item.payload.json})
