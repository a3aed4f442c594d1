"""The three letters of a message's life, and what people say instead of them."""

from __future__ import annotations

from typing import Final

NEW: Final = "n"
"""Not taken: ready, delayed, or (without a due time) dead."""

RUNNING: Final = "run"
"""Taken by a holder whose token stands in the row."""

DONE: Final = "y"
"""Finished; never moved again."""

STATUSES: Final = (NEW, RUNNING, DONE)
