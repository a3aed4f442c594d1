"""Hooks of a commit that go with what they tell of, also where a savepoint is rolled back by hand.

Django takes a hook back if the ``atomic()`` around it is rolled back. Of the savepoints of ``transaction.savepoint()``
it keeps no list, so it would run the hook of a statement that ``savepoint_rollback()`` has undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connections, transaction


class _Earlier(set[str]):
    """The savepoints of ``atomic()`` around a hook, and all that the session has made before: it counts them."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection.savepoint_ids)
        self._last = connection.savepoint_state

    def __contains__(self, name: object) -> bool:
        number = str(name).rpartition("_x")[2]
        return super().__contains__(name) or (number.isdecimal() and int(number) <= self._last)


def on_commit(hook: Callable[[], object], *, using: str) -> None:
    """Call the hook after the commit of what was just written: at once outside a transaction, and never if undone.

    With autocommit off at once, too: there nobody learns of the commit.
    """
    connection: Any = connections[using]
    if not connection.in_atomic_block and not connection.get_autocommit():
        hook()
        return
    transaction.on_commit(hook, using=using)
    if connection.in_atomic_block:
        _, *of_django = connection.run_on_commit[-1]
        connection.run_on_commit[-1] = (_Earlier(connection), *of_django)


def is_only_a_testcase(connection: Any) -> bool:
    """Return whether transactions are open, all of them begun by Django's TestCase or by the queue inside it."""
    blocks = [block for block in connection.atomic_blocks if not getattr(block, "is_of_the_queue", False)]
    return bool(blocks) and all(block._from_testcase for block in blocks)
