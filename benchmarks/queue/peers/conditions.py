"""What a contest may ask of its handlers, the queue's own and the peers' alike, by their environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BODY: Final = "DBQUEUE_BENCH_BODY"
"""The environment variable that says how many seconds each handler waits; none where it is not set."""
AT_ONCE: Final = 8
"""How many such handlers run at once in one process, for all that can."""
LOGGING: Final = "DBQUEUE_BENCH_LOGGING"
"""The environment variable that says whose logging there is: Django's own if it is DEFAULT, else none of tasks."""
DEFAULT: Final = "default"
NONE: Final[Mapping[str, str]] = MappingProxyType({})
"""Handlers do nothing, and nothing of tasks is logged."""
