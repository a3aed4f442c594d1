"""What is kept of an error."""

from __future__ import annotations

import traceback

MAX_ERROR_BYTES = 16 * 1024


def error_text(error: str | BaseException | None) -> str | None:
    """Return what the column ``error`` keeps: class, message and traceback, cut at 16 KiB, storable everywhere."""
    if error is None:
        return None
    if isinstance(error, BaseException):
        head = "".join(traceback.format_exception_only(error)).strip()
        trace = "".join(traceback.format_exception(error)).strip()
        error = head if trace == head else f"{head}\n\n{trace}"
    data = str(error).replace("\0", "\\0").encode("utf-8", "backslashreplace")
    return data[:MAX_ERROR_BYTES].decode("utf-8", "ignore")
