"""A caller who changes his mind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


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
