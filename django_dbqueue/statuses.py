"""The three statuses of a message's life, and the state names that people use instead."""

from __future__ import annotations

from typing import Final

NEW: Final = "n"
"""Not taken: ready, delayed, waiting or (without a due time) dead; ``states/table`` tells them apart."""

RUNNING: Final = "run"
"""Taken by a holder whose token is in the row."""

DONE: Final = "y"
"""Finished; never moved again."""

STATUSES: Final = (NEW, RUNNING, DONE)
