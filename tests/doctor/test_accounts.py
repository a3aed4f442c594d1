"""What the doctor can't see with an account of few privileges is a finding that names the grant, and no traceback."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_dbqueue.models import Worker
from django_dbqueue.models.fields import DbNow
from tests.doctor.conftest import examined, levels, run, wrong
from tests.factories import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

pytestmark = pytest.mark.django_db(transaction=True)
NAME = f"doctor_{settings.TEST_RUN}"

if settings.TEST_DATABASE == "postgres":
    ACCOUNT = NAME
    MAKE = [f"CREATE ROLE {NAME} LOGIN"]
    DROP = [f"DROP OWNED BY {NAME}", f"DROP ROLE {NAME}"]
    MAY_READ = [f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {NAME}"]
    MAY_WORK = [f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {NAME}"]
    MAY_NOTHING = [f"GRANT USAGE ON SCHEMA public TO {NAME}"]
    SEES_ALL = [f"GRANT pg_read_all_stats TO {NAME}"]
else:
    ACCOUNT = f"'{NAME}'@'%'"
    MAKE = [f"CREATE USER {ACCOUNT} IDENTIFIED BY 'secret'"]
    DROP = [f"DROP USER {ACCOUNT}"]
    MAY_READ = [f"GRANT SELECT ON {{database}}.* TO {ACCOUNT}"]
    MAY_WORK = [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {{database}}.* TO {ACCOUNT}"]
    MAY_NOTHING = [f"GRANT SELECT ON {{database}}.django_admin_log TO {ACCOUNT}"]
    SEES_ALL = [f"GRANT PROCESS ON *.* TO {ACCOUNT}"]

REFUSED = {"mariadb": [], "mysql": ["skip-locked"], "postgres": ["skip-locked", "claim-plan"]}[settings.TEST_DATABASE]
"""MariaDB locks rows for who may only read, and MySQL tells the plan of it."""


@pytest.fixture
def work_as(
    session: Any, other_connection: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """Grants an account these privileges, and makes it the one that Django connects by."""

    def begin(*grants: str) -> None:
        run(other_connection, *(grant.format(database=session.settings_dict["NAME"]) for grant in grants))
        session.close()
        monkeypatch.setitem(session.settings_dict, "USER", NAME)
        monkeypatch.setitem(session.settings_dict, "PASSWORD", "secret")

    user, password = session.settings_dict["USER"], session.settings_dict["PASSWORD"]
    other_connection.settings_dict = session.settings_dict | {"USER": user, "PASSWORD": password}
    run(other_connection, *MAKE)
    yield begin
    session.close()
    monkeypatch.undo()
    run(other_connection, *DROP)


def test_an_account_that_may_work_sees_all_but_the_transactions_of_others(work_as: Callable[..., None]) -> None:
    waiting()
    work_as(*MAY_WORK)
    found = examined()
    assert wrong(found) == ["unserved-queues"]
    assert levels(found, "rights") == levels(found, "skip-locked") == levels(found, "claim-plan") == ["ok"]
    assert ACCOUNT in found["rights"][0].found
    assert found["oldest-transaction"][0].level == "note"
    assert SEES_ALL[0] in found["oldest-transaction"][0].do
    if settings.TEST_DATABASE == "mysql":  # MariaDB tells it to everybody, PostgreSQL asks something else
        assert levels(found, "history") == ["note"]
        assert SEES_ALL[0] in found["history"][0].do


def test_what_the_grant_that_is_named_gives_is_seen(work_as: Callable[..., None]) -> None:
    work_as(*MAY_WORK, *SEES_ALL)
    found = examined()
    assert wrong(found) == []
    assert levels(found, "oldest-transaction") == levels(found, "history") == levels(found, "sight") == ["ok"]


def test_an_account_that_may_only_read_is_told_what_it_lacks(work_as: Callable[..., None]) -> None:
    waiting()
    work_as(*MAY_READ)
    found = examined()
    assert levels(found, "rights") == ["problem"]
    assert "may not INSERT, UPDATE, DELETE messages" in found["rights"][0].found
    assert found["rights"][0].do.endswith(f"ON django_dbqueue_message TO {ACCOUNT}")
    for check in REFUSED:
        assert levels(found, check) == ["note"]
        assert f"The account {ACCOUNT} may not see this" in found[check][0].found
        assert found[check][0].do.endswith(f"ON django_dbqueue_message TO {ACCOUNT}")
    assert levels(found, "unserved-queues") == ["warning"], "what reads alone can tell is told"


def test_an_account_that_may_nothing_is_told_so_without_a_traceback(work_as: Callable[..., None]) -> None:
    work_as(*MAY_NOTHING)
    found = examined()
    assert levels(found, "connection") == ["ok"]
    assert levels(found, "durability") == ["ok"]
    assert found["migrations"][0].level in {"note", "problem"}


if settings.TEST_DATABASE != "postgres":  # which shows the ids of all sessions to everybody

    def test_a_guardian_that_sees_no_list_of_sessions_matters_where_workers_hold_no_named_locks(
        work_as: Callable[..., None],
    ) -> None:
        work_as(*MAY_WORK)
        found = examined()
        assert levels(found, "sight") == ["note"]
        assert "only where workers can't take named locks" in found["sight"][0].found
        with override_settings(DBQUEUE={"SESSION_LOCKS": False}):
            found = examined()
        assert levels(found, "sight") == ["warning"]
        assert found["sight"][0].do == SEES_ALL[0]


def test_workers_that_can_not_be_judged_are_a_warning(session: Any) -> None:
    later = DbNow() + timedelta(seconds=10)
    earlier = DbNow() - timedelta(seconds=10)
    Worker.objects.create(
        id=1, host="h", pid=1, queues="tests", threads=1, started_at=earlier, late_at=later, beat_every=10
    )
    found = examined()
    assert wrong(found) == ["sight"]
    assert "1 worker can't prove its session" in found["sight"][0].found
