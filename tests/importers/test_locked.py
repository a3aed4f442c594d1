"""A worker of the other queue at the same row, step by step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction

from django_dbqueue.importers import source_named, take_over
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import session_of
from tests.commands.running import Ended, run
from tests.importers.others import Other, imported
from tests.process.conftest import PATIENCE


def import_all(name: str) -> Ended:
    try:
        return run("queue_import", name, "--yes", "--json")
    finally:
        connections.close_all()


def test_a_row_that_its_worker_is_just_claiming_is_left_alone(other: Other) -> None:
    other.enqueue(range(2))
    sent = other.waiting()
    if connection.vendor == "sqlite":  # one writer at a time: a claim that has begun is over before we read
        claimed = str(other.claim())
        assert run("queue_import", other.name, "--yes").code == 0
    else:
        with ThreadPoolExecutor(1) as aside, transaction.atomic():
            claimed = str(other.claim())
            ended = aside.submit(import_all, other.name).result(PATIENCE)
            assert ended.document["locked"] >= 1, "InnoDB may lock the rows among which it chose, too"
            assert ended.document["taken"] + ended.document["locked"] == 2
        run("queue_import", other.name, "--yes")
    assert imported(other.name) == sorted(sent - {claimed})
    assert {str(key) for key in other.table._base_manager.values_list("pk", flat=True)} == {claimed}


def test_what_was_begun_after_it_was_listed_is_left_alone(other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    other.enqueue(range(2))
    sent = other.waiting()
    source = source_named(other.name)
    listed = take_over._waiting_keys(session_of(connections["default"].alias), source)
    claimed = str(other.claim())
    monkeypatch.setattr(take_over, "_waiting_keys", lambda *_: listed)
    assert sum(step.moved.total() for step in take_over.take_over(session_of("default"), source)) == 1
    assert imported(other.name) == sorted(sent - {claimed})
    assert Message.objects.count() == 1
