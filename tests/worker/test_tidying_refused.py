"""A row that a trigger or a foreign key keeps, keeps no other from being forgotten, and is logged once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Final

import pytest
from django.db import connection, models
from django.db.models import deletion

from django_dbqueue.lifecycle import expired_rows, left_behind
from django_dbqueue.models import Event, Failure, MessageEvent, Once, Result, Schedule, Step, Worker
from django_dbqueue.models.fields import clock
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.worker.maintenance import TIDY_EVERY, Maintenance
from tests.factories import QUEUE
from tests.refusing import Why, pointing_to, refusing
from tests.worker.test_tidying import YEAR, keep_one_of_each

pytestmark = pytest.mark.django_db(transaction=True)

ROWS: Final = 9
HELD: Final = 4
FORGOTTEN: Final[dict[type[models.Model], str]] = {
    Result: "message_id",
    Once: "message_id",
    MessageEvent: "message_id",
    Failure: "fingerprint",
    Worker: "id",
    Schedule: "name",
    Event: "name",
    Step: "message_id",
}
"""Models whose rows are forgotten, each with a column that tells rows from one another."""


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_rows, "BATCH", 2)


def keep_old_rows() -> None:
    moment = clock("default") - YEAR
    for number in range(1, ROWS + 1):
        keep_one_of_each(number, moment + timedelta(seconds=number))
        Event.objects.create(
            name_hash=str(number) * 64, name=f"s{number}", body="1", content_type="json", token=1, expires_at=moment
        )
        Step.objects.create(message_id=number, name="s", kind="step", token=1, read_count=1)


def tidied(model: type[models.Model], held: Callable[[], AbstractContextManager[None]]) -> set[Any]:
    """Return what is left after three minutes."""
    maintenance = Maintenance(session_of("default"), (QUEUE,))
    with held():
        for minute in range(4):
            maintenance.run(minute * TIDY_EVERY)
        return set(model._default_manager.values_list(FORGOTTEN[model], flat=True))


@pytest.mark.parametrize("why", ["signals", "has a code of its own"])
@pytest.mark.parametrize("model", FORGOTTEN)
def test_what_a_trigger_keeps_is_passed_by(
    model: type[models.Model], why: Why, caplog: pytest.LogCaptureFixture
) -> None:
    keep_old_rows()
    table, column = model._meta.db_table, FORGOTTEN[model]
    values = [f"s{number}" if column == "name" else str(number) for number in range(1, HELD + 1)]
    condition = f"OLD.{column} IN ({', '.join(repr(each) if model in TEXTS else each for each in values)})"
    left = tidied(model, lambda: refusing("DELETE", condition, table=table, why=why))
    assert {str(each) for each in left} == set(values)
    assert not [record for record in caplog.records if record.exc_info]
    logged = [record.getMessage() for record in caplog.records if record.getMessage().startswith("left in the table")]
    assert len(logged) == HELD


TEXTS: Final = (Failure, Schedule, Event)


@pytest.mark.parametrize("model", [Result, MessageEvent, Failure, Worker])
def test_what_a_foreign_key_keeps_is_passed_by(model: type[models.Model], caplog: pytest.LogCaptureFixture) -> None:
    keep_old_rows()
    keys = sorted(model._default_manager.values_list("pk", flat=True))[:HELD]
    key = model._meta.pk
    kind = str(key.db_type(connection)).replace("serial", "int").replace(" AUTO_INCREMENT", "")
    left = tidied(model, lambda: pointing_to(model._meta.db_table, key.column, kind, *keys))
    assert len(left) == HELD
    assert not [record for record in caplog.records if record.exc_info]


def test_a_turn_ends_though_everything_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """And though more is held than is remembered: the walk would start over for ever."""
    monkeypatch.setattr(left_behind, "KNOWN", 3)
    keep_old_rows()
    session, left = session_of("default"), left_behind.LeftBehind("MessageEvent")
    with refusing("DELETE", "1 = 1", table=MessageEvent._meta.db_table):
        assert expired_rows.forget_events(session, age=60.0, limit=ROWS, left=left) == 0
    assert MessageEvent.objects.count() == ROWS


@pytest.mark.parametrize("model", [Worker, Schedule])
def test_nothing_of_a_project_goes_with_a_row_that_is_forgotten(
    model: type[models.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ORM would delete, too, what points there by a CASCADE."""
    keep_old_rows()
    monkeypatch.setattr(deletion, "get_candidate_relations_to_delete", unexpected)
    monkeypatch.setattr(models.QuerySet, "delete", unexpected)
    assert not tidied(model, nullcontext)


def unexpected(*_: object) -> Any:
    raise AssertionError("on_delete was asked")
