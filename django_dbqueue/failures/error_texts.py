"""What is kept of an error."""

from __future__ import annotations

import traceback
from typing import Final

MAX_ERROR_BYTES: Final = 16 * 1024
MAX_HEAD: Final = 2_000
"""Characters of class and message before the traceback, which has to fit in behind them."""
CUT: Final = " […]"
"""What ends a head that was cut."""
UNREADABLE: Final = "what it says of itself can't be read"


def error_text(error: str | BaseException | None) -> str | None:
    """Return what the column ``error`` keeps: class, message and traceback, cut at 16 KiB, storable everywhere.

    If the exception raises when asked for its text, only the class is kept.
    """
    if error is None:
        return None
    if isinstance(error, BaseException):
        error = _text_of(error)
    data = str(error).replace("\0", "\\0").encode("utf-8", "backslashreplace")
    return data[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def reason_of(error: BaseException) -> str:
    """Return an exception's own text, without its class; it may be empty if getting the text raises."""
    try:
        return str(error)
    except BaseException:
        return f"{class_name(error)}: {UNREADABLE}"


def class_name(error: BaseException) -> str:
    """Return the name of an exception's class, whatever its metaclass claims."""
    return str(type.__dict__["__name__"].__get__(type(error)))


def class_path(error: object) -> str | None:
    """Return the dotted path of an exception's class, whatever its metaclass claims; None for what is no exception."""
    if not isinstance(error, BaseException):
        return None
    kind = type(error)
    try:
        return ".".join(str(type.__dict__[name].__get__(kind)) for name in ("__module__", "__qualname__"))
    except BaseException:  # of a class without a module, or one of an object of the user's
        return None


def _text_of(error: BaseException) -> str:
    try:
        head = "".join(traceback.format_exception_only(error)).strip()
        trace = "".join(traceback.format_exception(error)).rstrip()  # that of a group is indented
    except BaseException:  # raised by the exception's own methods, or for lack of stack or memory
        return f"{class_name(error)}: {UNREADABLE}"
    if trace.strip() == head:
        return head
    return f"{head if len(head) <= MAX_HEAD else head[:MAX_HEAD] + CUT}\n\n{trace}"
