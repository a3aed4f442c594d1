"""A caller who changes his mind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import transaction

if TYPE_CHECKING:
    from collections.abc import Iterator


class Abandoned(Exception):
    """What a block is rolled back by."""


@contextmanager
def rolled_back() -> Iterator[None]:
    """An atomic block (inside another: a savepoint) that is rolled back at its end, by an exception."""
    try:
        with transaction.atomic():
            yield
            raise Abandoned
    except Abandoned:
        pass
