"""Leaves out of the log what this story brings about on purpose; whatever else goes wrong is still said.

A cancelled departure is rejected, and the pretended notice service fails: 516 lines for the shipped file.
"""

from __future__ import annotations

import logging


class Unexpected(logging.Filter):
    """Lets through all but the lines about cancelled departures and about notices that will be retried."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = getattr(record, "fields", {}).get("error", "")
        match getattr(record, "event", None):
            case "died":
                return not error.startswith("cancelled: ")
            case "failed":
                return "NoticeServiceDown: " not in error and not error.startswith("Retry: ")
        return True
