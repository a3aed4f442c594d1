"""What tests of the history's deletion by age have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_dbqueue.history import age_walk
from django_dbqueue.history.age_walk import AgeWalk
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from tests.spark.archives import archive

SESSION = session_of("default")
DAY = 86_400.0
YEAR = 365 * DAY


@pytest.fixture
def small_windows(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows make many windows and turns; and a worker has checked the clock before there were rows."""
    monkeypatch.setattr(age_walk, "WINDOW", 3)
    monkeypatch.setattr(age_walk, "AT_ONCE", 6)
    monkeypatch.setattr(age_walk, "OTHERS_CHECK", 0)
    walk(100 * YEAR)


def aged(days: float, *, rows: int = 1, queue: str = "tests") -> list[int]:
    """Rows of the history that were archived so many days ago; returns their ids."""
    return archive(rows, queue=queue, archived_at=clock("default") - timedelta(days=days))


def walk(default: float | None, *, walker: AgeWalk | None = None, **named: float | None) -> AgeWalk:
    """Let a worker delete all that has expired; ``named``: by queue."""
    walker = walker or AgeWalk(SESSION)
    walker._next_at = 0.0
    while walker.turn(default, named):
        pass
    return walker


@contextmanager
def clock_moved(seconds: float) -> Iterator[None]:
    """Let the server's clock be so many seconds ahead, for whatever is sent meanwhile."""
    now, moved = SESSION.server.now, SESSION.server.plus(SESSION.server.now, repr(float(seconds)))
    now = "'now'" if "'now'" in now else now  # SQLite has a word for it

    def execute(go_on: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        return go_on(sql.replace(now, moved), params, many, context)

    with connection.execute_wrapper(execute):
        yield
