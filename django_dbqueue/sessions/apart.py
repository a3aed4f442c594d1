"""An error of one row fails that row: what the server refuses together is tried in halves, down to single rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import DatabaseError

from django_dbqueue.sessions.retry import in_one_line, is_refused

Item = TypeVar("Item")

logger = logging.getLogger("django_dbqueue")


def apart(
    items: Sequence[Item],
    work: Callable[[list[Item]], object],
    refused: Callable[[Item, DatabaseError], object],
) -> None:
    """Do the work on all items, in order; ``refused`` is called for each that the server refuses even alone.

    The work must be one commit, or a savepoint: what was refused has changed nothing. Any other error is raised, and
    says that nothing from there on was done.
    """
    if not (some := list(items)):
        return
    try:
        work(some)
    except DatabaseError as error:
        if not is_refused(error):
            raise
        refusal = error
    else:
        return
    if len(some) == 1:  # outside of the block: whoever reports something here isn't handling the server's error
        refused(some[0], refusal)
        return
    half = len(some) // 2
    apart(some[:half], work, refused)
    apart(some[half:], work, refused)


def name_refused(message_id: int, error: DatabaseError) -> None:
    """Log which message the database refused to change, and what it said."""
    logger.warning("message %s is left as it is: the database refused (%s)", message_id, in_one_line(error))
