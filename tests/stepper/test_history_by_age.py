"""Who deletes the history by age, alongside who begins to read it: a reader holds what it begins with, or misses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_dbqueue.exceptions import HistoryGone
from django_dbqueue.history import age_walk
from django_dbqueue.history.age_walk import AgeWalk
from django_dbqueue.models import ArchivedMessage, HistoryAge, HistoryReader
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.spark import history_readers
from tests.history.aging import DAY, aged, walk
from tests.spark.archives import ids
from tests.stepper.exploring import Explored
from tests.stepper.scene import Ended, Scene


def test_a_reader_that_begins_or_returns_has_all_rows_from_there_on_or_learns_of_it(
    explore: Callable[..., Explored], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(age_walk, "OTHERS_CHECK", 0)

    def world() -> Scene:
        aged(0)  # so that a reader that begins with the first row does not begin with 0
        for model in (ArchivedMessage, HistoryAge, HistoryReader):
            model._default_manager.all().delete()
        walk(365 * DAY)
        rows = aged(20, rows=3)
        session: Any = session_of("default")

        def resume() -> str:
            try:
                history_readers.resume(session, "old", rows[0])
            except HistoryGone:
                return "gone"
            return "continues"

        def check(ended: Ended) -> str:
            there = ids()
            assert there in ([], rows, rows[1:])
            for name, position in HistoryReader.objects.values_list("name", "position"):
                wanted = [each for each in rows if each > position]
                assert there[-len(wanted) :] == wanted or position == 0, name  # 0: there was none to begin with
            assert ended["returning"] == ("continues" if HistoryReader.objects.filter(name="old").exists() else "gone")
            return f"{ended['returning']}, {len(there)} left"

        actors: dict[str, Callable[[], Any]] = {
            "worker": lambda: AgeWalk(session).turn(7 * DAY, {}),
            "beginning": lambda: history_readers.begin(session, "new", history_readers.EARLIEST),
            "returning": resume,
        }
        return Scene(actors, check)

    assert {"gone, 0 left", "continues, 2 left"} <= set(explore(world, preemptions=1).seen)
